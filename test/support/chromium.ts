import { existsSync } from 'node:fs';

const PATHS = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/opt/google/chrome/chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/** The path of Chromium, if it is installed. An invalid CHROME_PATH fails the tests instead of skipping them. */
export const chromiumPath = process.env['CHROME_PATH'] ?? PATHS.find((path) => existsSync(path));
