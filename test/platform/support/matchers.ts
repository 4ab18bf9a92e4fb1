import { ApiError } from '../../../src/platform/errors/api-error.js';
import type { ErrorCode, FeatureErrorCode } from '../../../src/platform/errors/error-codes.js';

/** A response of any HTTP client. */
interface ResponseLike {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text?: string;
}

declare global {
  // oxlint-disable-next-line typescript/no-namespace -- Jest declares its matchers in a namespace
  namespace jest {
    interface Matchers<R> {
      /**
       * Checks an error response: the status of the code, a body with exactly the properties of Error, no-store, a request id.
       *
       * @param message the exact message or a pattern; by default any message that is not blank
       */
      toBeError(code: ErrorCode | FeatureErrorCode, message?: string | RegExp): R;
    }
  }
}

/** Jest loads this file before each test file. */
expect.extend({
  toBeError(
    this: jest.MatcherContext,
    response: ResponseLike,
    errorCode: ErrorCode | FeatureErrorCode,
    message: string | RegExp = /\S/,
  ): jest.CustomMatcherResult {
    const error = new ApiError(errorCode, '');
    const status = error.getStatus();
    const expected = {
      status,
      contentType: 'application/json; charset=utf-8',
      requestId: expect.stringMatching(/^[\w.:;,/+=@~-]{1,128}$/) as string,
      cacheControl: 'no-store',
      body: {
        code: error.code,
        message: typeof message === 'string' ? message : expect.stringMatching(message),
        status,
      },
    };
    const actual = {
      status: response.status,
      contentType: response.headers['content-type'],
      requestId: response.headers['x-request-id'],
      cacheControl: response.headers['cache-control'],
      body: parse(response.text),
    };
    return {
      pass: this.equals(actual, expected),
      message: () =>
        this.utils.diff(expected, actual) ?? `Expected the response not to be ${error.code}`,
    };
  },
});

function parse(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return text;
  }
}
