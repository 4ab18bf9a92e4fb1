import type { Type } from '@nestjs/common';
import { AppModule } from '../../src/app.module.js';
import { startApp, type TestApp } from './app.js';

const { jest } = import.meta;

/** Starts the real application with an additional module, whose routes are registered first. */
export async function startAppWithModule(
  module: Type,
  options?: Parameters<typeof startApp>[0],
): Promise<TestApp> {
  class TestModule {}
  const forRoot = AppModule.forRoot.bind(AppModule);
  const spy = jest.spyOn(AppModule, 'forRoot').mockImplementation((config) => ({
    module: TestModule,
    imports: [module, forRoot(config)],
  }));
  try {
    return await startApp(options);
  } finally {
    spy.mockRestore();
  }
}
