/**
 * The extension with which decorators declare headers of the successful responses of an operation, in
 * the form of the OpenAPI document. `createDocument` adds them to the responses and removes it.
 */
export const RESPONSE_HEADERS = 'x-response-headers';
