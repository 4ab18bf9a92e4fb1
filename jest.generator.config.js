/** The generator's tests, which generate modules in copies of the project: they take minutes. */
import { createConfig, GENERATOR } from './jest.config.js';

export default createConfig('{,slow/}', 600_000, [GENERATOR]);
