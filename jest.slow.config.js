/** What takes minutes by nature: repeated SIGKILLs, outages, the generator, a whole Petstore, the image, conformance, long fuzzing. */
import { createConfig } from './jest.config.js';

// The environment is the only way to pass it to Jest's workers.
process.env['FUZZ_RUNS'] ??= '1000';

export default createConfig('{test/slow/*,test/fuzz.databases}');
