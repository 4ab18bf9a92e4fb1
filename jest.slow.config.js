/** What takes minutes by nature: repeated SIGKILLs, outages, the generator, a whole Petstore, the image, conformance, fuzzing. */
import { createConfig } from './jest.config.js';

export default createConfig('test/slow/*');
