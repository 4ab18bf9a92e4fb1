import { ERROR_CODES, type ErrorCode } from '../../src/platform/errors/error-codes.js';

/** An answer, read by supertest or from a raw connection. */
interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text?: string;
}

declare global {
  // oxlint-disable-next-line typescript/no-namespace -- Jest's matchers are declared in one
  namespace jest {
    interface Matchers<R> {
      /**
       * The answer is the Error body with exactly its three properties, as JSON, with the status of
       * its code, kept by no cache, and carries a request id.
       *
       * @param message the whole message, or what it must match; any text that is not blank unless told
       */
      toBeError(code: ErrorCode, message?: string | RegExp): R;
    }
  }
}

/** For `expect.extend`. */
export const matchers = {
  toBeError(
    this: jest.MatcherContext,
    answer: Answer,
    code: ErrorCode,
    message: string | RegExp = /\S/,
  ): jest.CustomMatcherResult {
    const { status } = ERROR_CODES[code];
    const expected = {
      status,
      contentType: 'application/json; charset=utf-8',
      requestId: expect.stringMatching(/^[\w.:;,/+=@~-]{1,128}$/) as string,
      cacheControl: 'no-store',
      body: {
        code,
        message: typeof message === 'string' ? message : expect.stringMatching(message),
        status,
      },
    };
    const actual = {
      status: answer.status,
      contentType: answer.headers['content-type'],
      requestId: answer.headers['x-request-id'],
      cacheControl: answer.headers['cache-control'],
      body: parse(answer.text),
    };
    return {
      pass: this.equals(actual, expected),
      message: () => this.utils.diff(expected, actual) ?? 'The answer is that error.',
    };
  },
};

function parse(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return text;
  }
}
