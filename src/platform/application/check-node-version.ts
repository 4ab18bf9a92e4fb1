/**
 * Ends the process with a message if this release of Node is not supported. Every entry point imports it
 * before anything else: on Node 20, loading better-sqlite3 13 is a segmentation fault.
 */
const { node: version } = process.versions;
const [major = 0, minor = 0] = version.split('.').map(Number);

// The same as `engines` in package.json, and as TypeORM 1.1 requires.
const isSupported = major > 24 || (major === 24 && minor >= 11) || (major === 22 && minor >= 14);

if (!isSupported) {
  process.stderr.write(
    `Node ${version} is not supported: use Node 22.14 or later, 24.11 or later, or 26.\n`,
  );
  process.exit(1);
}
