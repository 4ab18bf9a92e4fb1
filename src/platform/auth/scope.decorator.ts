import { applyDecorators } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ApiExtension } from '@nestjs/swagger';
import type { Scope } from './keys/api-key.entity.js';

export const RequiredScope = Reflector.createDecorator<Scope>();

/** Declares the scope that an operation requires, also in the OpenAPI document, if its method implies another one. */
export const RequireScope = (scope: Scope): MethodDecorator =>
  applyDecorators(RequiredScope(scope), ApiExtension('x-required-scope', scope));
