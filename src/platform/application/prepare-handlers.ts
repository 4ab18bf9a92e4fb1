import type { Type } from '@nestjs/common';
import { MetadataScanner, type ModulesContainer } from '@nestjs/core';
import { moveInnermost } from '../resource/operation/innermost-interceptor.js';
import { prepareParameters } from '../validation/validation.pipe.js';

/**
 * Completes the metadata of all handlers, before Nest creates the routes.
 *
 * @throws {TypeError} if the class of a parameter is not supported
 */
export function prepareHandlers(modules: ModulesContainer): void {
  for (const { controllers } of modules.values())
    for (const { metatype } of controllers.values()) {
      const controller = metatype as Type<object>;
      const handlers = controller.prototype as Record<string, object>;
      for (const name of new MetadataScanner().getAllMethodNames(handlers)) {
        prepareParameters(controller, name);
        moveInnermost(handlers[name]!);
      }
    }
}
