/**
 * Combines a parameter decorator with decorators of its method, so that one line both passes a value to a
 * handler and documents where it comes from.
 */
export function withMethodDecorators(
  parameter: ParameterDecorator,
  ...decorators: readonly MethodDecorator[]
): ParameterDecorator {
  return (target, method, index) => {
    parameter(target, method, index);
    const handler = Object.getOwnPropertyDescriptor(target, method!)!;
    for (const decorate of decorators) decorate(target, method!, handler);
  };
}
