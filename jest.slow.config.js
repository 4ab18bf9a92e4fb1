/** What takes minutes by nature: repeated SIGKILLs, outages, the image, conformance, fuzzing. */
import { createConfig, LEFT_OUT } from './jest.config.js';

if (LEFT_OUT.length > 0) process.stderr.write(`Left out, in a fork: ${LEFT_OUT.join(', ')}\n`);

export default createConfig('slow/', 600_000);
