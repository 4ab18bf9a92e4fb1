/** The parts of Swagger UI's system and of the browser that the plugin uses; neither has types here. */
interface SwaggerSystem {
  readonly React: {
    readonly Fragment: unknown;
    createElement(type: unknown, props: object | null, ...children: unknown[]): unknown;
  };
  readonly specSelectors: { specJson(): { getIn(path: readonly string[]): unknown } };
}
interface PageElement {
  querySelector(selector: string): PageElement | null;
  setAttribute(name: string, value: string): void;
  focus(): void;
}
declare const document: PageElement & {
  readonly documentElement: { readonly classList: { toggle(name: string, force: boolean): void } };
  readonly head: { append(element: PageElement): void };
  createElement(name: string): PageElement;
};
declare const matchMedia: (query: string) => {
  readonly matches: boolean;
  addEventListener(type: 'change', listener: () => void): void;
};

/**
 * A Swagger UI plugin that fixes what axe reports for the stock page: links inside buttons, a server
 * list, a request body and a close button without a name, and a page without a mobile viewport. It also
 * follows the color scheme of the system, moves the focus to Close when a key was entered, and shows
 * whether an operation is deprecated, experimental or in beta before it is expanded.
 *
 * `@nestjs/swagger` writes its source into the page, so it must not use anything outside itself.
 */
export const accessibilityPlugin = (): object => ({
  afterLoad: () => {
    const viewport = document.createElement('meta');
    viewport.setAttribute('name', 'viewport');
    viewport.setAttribute('content', 'width=device-width, initial-scale=1');
    document.head.append(viewport);
    // The class that the top bar of Swagger UI, which this page does not have, would toggle.
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const followSystem = (): void =>
      document.documentElement.classList.toggle('dark-mode', dark.matches);
    dark.addEventListener('change', followSystem);
    followSystem();
  },
  statePlugins: {
    auth: {
      wrapActions: {
        // The text box that had the focus is gone.
        authorizeWithPersistOption:
          (original: (payload: unknown) => unknown) => (payload: unknown) => {
            setTimeout(() => document.querySelector('.dialog-ux .btn-done')?.focus());
            return original(payload);
          },
      },
    },
  },
  wrapComponents: {
    // The button or heading around the link does the same.
    DeepLink:
      (_original: unknown, { React }: SwaggerSystem) =>
      ({ text }: { text: string }) =>
        React.createElement('span', null, text),
    OperationSummaryPath:
      (Original: unknown, { React, specSelectors }: SwaggerSystem) =>
      (props: { specPath: Iterable<string> }) => {
        const read = (name: string): unknown =>
          specSelectors.specJson().getIn([...props.specPath, name]);
        const markers = [read('deprecated') === true && 'deprecated', read('x-stability')];
        return React.createElement(
          React.Fragment,
          null,
          React.createElement(Original, props),
          ...markers
            .filter((marker) => typeof marker === 'string')
            .map((marker) => React.createElement('span', { className: 'stability' }, marker)),
        );
      },
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
