import type { SwaggerCustomOptions } from '@nestjs/swagger';
import type { RequestHandler } from 'express';
import { allowMethods, rejectUnmatched } from '../http/server/unmatched-routes.js';

declare const document: {
  readonly head: { insertAdjacentHTML(position: 'beforeend', html: string): void };
};

/** The parts of Swagger UI and React that the plugin uses. */
type CreateElement = (type: unknown, props: object | null, ...children: unknown[]) => unknown;
interface SwaggerUi {
  readonly React: { readonly createElement: CreateElement };
  readonly getComponent: (name: string, isContainer: true) => unknown;
}
type ResponseProps = { code: string; response: ReadonlyMap<'description', string> };
type HeadersProps = { headers?: { filter(keep: (_: unknown, name: string) => boolean): unknown } };

/**
 * Creates a plugin of Swagger UI that collapses each error response to a line, because most are the same for all operations,
 * and hides the headers of every response, which the description of the document explains.
 */
const summarizeResponses = () => ({
  wrapComponents: {
    response:
      (Response: unknown, { React, getComponent }: SwaggerUi) =>
      (props: ResponseProps): unknown => {
        const { createElement: create } = React;
        const row = create(Response, props);
        if (/^[23]/.test(props.code)) return row;
        const markdown = { source: props.response.get('description') };
        const meaning = create(getComponent('Markdown', true), markdown);
        const summary = create('summary', null, create('b', null, props.code), meaning);
        const table = create('table', null, create('tbody', null, row));
        const cell = create('td', { colSpan: 3 }, create('details', null, summary, table));
        return create('tr', { className: 'response error-response' }, cell);
      },
    headers:
      (Headers: unknown, { React }: SwaggerUi) =>
      (props: HeadersProps): unknown => {
        const headers = props.headers?.filter(
          (_header, name) => !/^(X-Request-Id|RateLimit)/.test(name),
        );
        return React.createElement(Headers, { ...props, headers });
      },
  },
});

/**
 * Styles that keep the operations on the first screen, and wide content inside a phone's screen, and that give all text, of
 * disabled controls, too, a contrast of 4.5 (WCAG 2.2, 1.4.3): some of Swagger UI's colors have 1.2. `!important` overrides
 * its selectors for the dark mode, which are more specific.
 */
const CSS = `
.swagger-ui .topbar .topbar-wrapper { flex-flow: row nowrap; justify-content: space-between; }
.swagger-ui .info { margin: 16px 0; }
.swagger-ui .info .title { font-size: 28px; }
.swagger-ui .info table { display: block; overflow-x: auto; }
.swagger-ui .scheme-container { padding: 12px 0; }
.swagger-ui .error-response summary { padding-left: 92px; text-indent: -92px; cursor: pointer; }
.swagger-ui .error-response summary b { display: inline-block; min-width: 67px; margin-right: 8px; text-indent: 0; }
.swagger-ui .error-response summary :not(b, code) { display: inline; margin: 0; }
.swagger-ui .error-response :is(.response-col_status, .response-col_links, .response-col_description__inner) { display: none; }
.swagger-ui .error-response .response-col_description { padding-left: 92px; }
.swagger-ui .responses-table > thead .response-col_status { min-width: 92px; }
.swagger-ui table :is(td, th):not(:last-child) { padding-right: 16px !important; }
.swagger-ui .opblock.opblock-deprecated { opacity: 1; }
.swagger-ui .opblock-deprecated .opblock-summary-description::before { content: 'Deprecated: '; font-weight: bold; color: light-dark(#b3001b, #ff8f8f); }
.swagger-ui .opblock .opblock-summary .opblock-summary-method { color: #080a0b; text-shadow: none; }
.swagger-ui .opblock-deprecated .opblock-summary .opblock-summary-method { background: #b7bcbf !important; }
.swagger-ui .info .title small { background: #434b4f !important; }
.swagger-ui .renderedMarkdown a { color: light-dark(#0b5cad, #51a8ff); }
.swagger-ui .renderedMarkdown code { color: light-dark(#6a0fc0, #b68ae1) !important; }
.swagger-ui :is(.header-col, .header-example, .parameter__in, .property, .prop-format, .model td, .model p, :not(button):disabled) { color: light-dark(#3b4151, #e4e6e6) !important; }
.swagger-ui .prop-type { color: light-dark(#33418c, #b68ae1); }
.swagger-ui .opblock .opblock-section-header { background: light-dark(#fffc, #0006) !important; }
.swagger-ui .btn.authorize { border-color: currentcolor !important; color: light-dark(#0e6b40, #3ece90) !important; }
.swagger-ui .btn.execute { background: light-dark(#0b5cad, #51a8ff) !important; }
.swagger-ui :is(.btn.cancel, .parameter__name.required span, .star), .swagger-ui .parameter__name.required::after { color: light-dark(#b3001b, #ff8f8f) !important; }
.swagger-ui :disabled { opacity: 1 !important; }
.swagger-ui ::placeholder { opacity: 1 !important; color: light-dark(#54585f, #b7bcbf) !important; }
.swagger-ui .download-contents { background: #434b4f !important; }
.swagger-ui .microlight span[style*="211, 99, 99"] { color: #ff9d9d !important; }
@media (max-width: 640px) {
  .swagger-ui .opblock-tag-section { overflow-x: auto; }
  .swagger-ui .responses-table { table-layout: fixed; }
  .swagger-ui .response-col_status { width: 92px; }
  .swagger-ui .response-col_links, .swagger-ui .headers thead { display: none; }
  .swagger-ui .headers td { display: block; max-width: none; padding: 0; }
  .swagger-ui .headers td:first-child { padding-top: 12px; }
}
`;

/** The appearance and the behaviour of Swagger UI. Its default layout has the switch of the dark mode. */
export const swaggerUiOptions: SwaggerCustomOptions = {
  customCss: CSS,
  swaggerOptions: {
    // The key survives a reload of the page.
    persistAuthorization: true,
    // Swagger UI would send the document to a validator of its vendor.
    validatorUrl: null,
    plugins: [summarizeResponses],
    // `@nestjs/swagger` writes the source of this function into the page, which has no viewport: a phone
    // would show it as wide as a desktop.
    onComplete: () =>
      document.head.insertAdjacentHTML(
        'beforeend',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
      ),
  },
};

/** The paths for which `@nestjs/swagger` adds routes. */
const ROUTES = /^\/(index\.html|LICENSE|(docs\/)?swagger-ui-init\.js)?$/;
/** The files that the page loads, and the licenses of the scripts. The package of Swagger UI has more files. */
const FILES =
  /^\/(favicon-(16x16|32x32)\.png|swagger-ui-(bundle|standalone-preset)\.js(\.LICENSE\.txt)?|swagger-ui\.css)$/;

/**
 * Creates middleware that rejects all other files of Swagger UI, and lets caches store and revalidate these.
 *
 * @param paths the paths below `/docs` that other routes serve
 */
export const selectFiles =
  (paths: readonly string[]): RequestHandler =>
  (request, response, next) => {
    const { baseUrl, path } = request;
    if (FILES.test(path)) {
      allowMethods(response, ['GET', 'HEAD']);
      response.setHeader('Cache-Control', 'no-cache');
    } else if (!ROUTES.test(path) && !paths.includes(baseUrl + path))
      rejectUnmatched(request, response);
    next();
  };
