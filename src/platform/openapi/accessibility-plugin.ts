/** The parts of Swagger UI's system and of the browser that the plugin uses; neither has types here. */
interface SwaggerSystem {
  readonly React: {
    createElement(type: unknown, props: object | null, ...children: unknown[]): unknown;
  };
}
interface PageElement {
  querySelector(selector: string): PageElement | null;
  setAttribute(name: string, value: string): void;
}
declare const document: {
  readonly head: { append(element: PageElement): void };
  createElement(name: string): PageElement;
};

/**
 * A Swagger UI plugin that fixes what axe reports for the stock page: links inside buttons, a server
 * list, a request body and a close button without a name, and a page without a mobile viewport.
 *
 * `@nestjs/swagger` writes its source into the page, so it must not use anything outside itself.
 */
export const accessibilityPlugin = (): object => ({
  afterLoad: () => {
    const viewport = document.createElement('meta');
    viewport.setAttribute('name', 'viewport');
    viewport.setAttribute('content', 'width=device-width, initial-scale=1');
    document.head.append(viewport);
  },
  wrapComponents: {
    // The button or heading around the link does the same.
    DeepLink:
      (_original: unknown, { React }: SwaggerSystem) =>
      ({ text }: { text: string }) =>
        React.createElement('span', null, text),
    // The only content of the button that closes the dialog.
    CloseIcon:
      (Original: unknown, { React }: SwaggerSystem) =>
      (props: object) =>
        React.createElement(Original, {
          ...props,
          role: 'img',
          'aria-label': 'Close',
          'aria-hidden': false,
        }),
    TextArea:
      (Original: unknown, { React }: SwaggerSystem) =>
      (props: object) =>
        React.createElement(Original, { 'aria-label': 'Request body', ...props }),
    Servers:
      (Original: unknown, { React }: SwaggerSystem) =>
      (props: object) =>
        React.createElement(
          'div',
          {
            ref: (element: PageElement | null) =>
              element?.querySelector('select')?.setAttribute('aria-label', 'Server'),
          },
          React.createElement(Original, props),
        ),
  },
});
