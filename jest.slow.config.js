/** What takes minutes by nature: repeated SIGKILLs, outages, the image, conformance, fuzzing. */
import { createConfig } from './jest.config.js';

export default createConfig('slow/', 600_000);
