import { SetMetadata } from '@nestjs/common';
import { RequestParam } from '../http/request-param.js';

const HAS_API_KEY_ID = 'platform:api-key-id';

/**
 * Passes the id of the API key of a request to a handler: a number that identifies the client, until its key is rotated.
 */
export function ApiKeyId(): ParameterDecorator {
  return RequestParam(({ apiKey }) => apiKey!.id, SetMetadata(HAS_API_KEY_ID, true));
}

/** @throws {TypeError} if a handler of a public operation has the parameter: as undefined, it would match all rows */
export const refuseApiKeyId: MethodDecorator = (_target, name, { value: handler }) => {
  if (Reflect.hasMetadata(HAS_API_KEY_ID, handler as object))
    throw new TypeError(
      `${String(name)} is @Public(), whose requests have no API key for @ApiKeyId().`,
    );
};
