/** What takes minutes by nature: repeated SIGKILLs, the generator, the image, long fuzzing, 10,000 connections. */
import { createConfig } from './jest.config.js';

// The environment is the only way to pass it to Jest's workers.
process.env['FUZZ_RUNS'] ??= '1000';

export default createConfig('{test/slow/*,test/fuzz.databases}');
