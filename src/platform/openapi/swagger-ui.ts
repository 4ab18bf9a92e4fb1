import type { SwaggerCustomOptions } from '@nestjs/swagger';

/**
 * Colours with the contrast of WCAG 2.1 AA (1.4.3), where those of Swagger UI's stock page are paler,
 * and widths that a telephone has.
 */
const swaggerUiCss = `
.swagger-ui .info .title small { background: #5c6370; }
.swagger-ui .info .title small.version-stamp { background: #4a6b00; }
.swagger-ui .opblock.opblock-get .opblock-summary-method { background: #1b62b5; }
.swagger-ui .opblock.opblock-post .opblock-summary-method { background: #137a4b; }
.swagger-ui .opblock.opblock-put .opblock-summary-method { background: #8a4b00; }
.swagger-ui .opblock.opblock-patch .opblock-summary-method { background: #0b6b7d; }
.swagger-ui .opblock.opblock-delete .opblock-summary-method { background: #b3261e; }
.swagger-ui .opblock.opblock-deprecated { opacity: 1; }
.swagger-ui .opblock.opblock-deprecated .opblock-summary-method { background: #5c6370; }
.swagger-ui .opblock.opblock-deprecated .opblock-summary-description { color: #3b4151; }
.swagger-ui .btn.authorize { border-color: #137a4b; color: #137a4b; }
.swagger-ui .btn.authorize svg { fill: #137a4b; }
.swagger-ui .btn.execute { background-color: #1b62b5; border-color: #1b62b5; }
.swagger-ui .btn.cancel { border-color: #b3261e; color: #b3261e; }
.swagger-ui .parameter__in, .swagger-ui .prop-format, .swagger-ui table.headers .header-example { color: #5c6370; }
.swagger-ui .parameter__name.required span, .swagger-ui .parameter__name.required:after { color: #b3261e; }
.swagger-ui .markdown code, .swagger-ui .renderedMarkdown code { color: #6a00c2; }
.swagger-ui .response-control-media-type__accept-message { color: #137a4b; }
.swagger-ui .highlight-code .download-contents { background: #4a5060; }
.swagger-ui .highlight-code .microlight code span[style*="211, 99, 99"] { color: #ff9d9d !important; }
.swagger-ui .wrapper { box-sizing: border-box; }
.swagger-ui .markdown, .swagger-ui .renderedMarkdown { overflow-x: auto; }
@media (max-width: 640px) {
  .swagger-ui .wrapper { padding: 0 10px; }
  .swagger-ui .scheme-container .schemes { flex-wrap: wrap; gap: 10px; }
  .swagger-ui .opblock .opblock-summary-description { display: none; }
  .swagger-ui .opblock .opblock-summary-path { max-width: none; }
  .swagger-ui .response-col_links { display: none; }
  .swagger-ui .opblock-body table { table-layout: fixed; }
  .swagger-ui .response-col_status { width: 64px; }
  .swagger-ui .response-col_description { overflow-wrap: anywhere; }
  .swagger-ui .microlight, .swagger-ui .microlight * { white-space: pre-wrap !important; overflow-wrap: anywhere; }
}
`;

/** The part of Swagger UI's system and of the browser that `mendPage` needs; neither brings types. */
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
 * Mends what the stock page denies to people with a screen reader or a telephone: links within buttons,
 * a list of servers, a request body and a button without a name, a page that pretends to be 980 pixels
 * wide.
 *
 * Nest writes its source into the page's script: it may use nothing from outside of itself.
 */
const accessibilityPlugin = (): object => ({
  afterLoad: () => {
    const viewport = document.createElement('meta');
    viewport.setAttribute('name', 'viewport');
    viewport.setAttribute('content', 'width=device-width, initial-scale=1');
    document.head.append(viewport);
  },
  wrapComponents: {
    // The button or the heading around it does the same.
    DeepLink:
      (_original: unknown, { React }: SwaggerSystem) =>
      ({ text }: { text: string }) =>
        React.createElement('span', null, text),
    // It is all that the button that closes the dialog holds.
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

/** How Swagger UI looks and what it does. */
export const swaggerUiOptions: SwaggerCustomOptions = {
  customSiteTitle: 'Petstore API',
  customCss: swaggerUiCss,
  swaggerOptions: {
    // A key that was entered outlives a reload.
    persistAuthorization: true,
    // Without the bar of Swagger UI's own name.
    layout: 'BaseLayout',
    // It would ask a server of Swagger's whether the document is valid.
    validatorUrl: null,
    plugins: [accessibilityPlugin],
  },
};
