import type { SwaggerCustomOptions } from '@nestjs/swagger';

declare const document: {
  readonly head: { insertAdjacentHTML(position: 'beforeend', html: string): void };
};

/** Keeps the operations on the first screen, and wide contents inside that of a phone. */
const CSS = `
.swagger-ui .topbar .topbar-wrapper { flex-flow: row nowrap; justify-content: space-between; }
.swagger-ui .info { margin: 16px 0; }
.swagger-ui .info .title { font-size: 28px; }
.swagger-ui .info table { display: block; overflow-x: auto; }
.swagger-ui .scheme-container { padding: 12px 0; }
@media (max-width: 640px) {
  .swagger-ui .opblock-tag-section { overflow-x: auto; }
  .swagger-ui .responses-table { table-layout: fixed; }
  .swagger-ui .response-col_status { width: 64px; }
  .swagger-ui .response-col_links { display: none; }
}
`;

/** The appearance and the behaviour of Swagger UI. Its default layout has the switch of the dark mode. */
export const swaggerUiOptions: SwaggerCustomOptions = {
  customSiteTitle: 'Petstore API',
  customCss: CSS,
  swaggerOptions: {
    // The key survives a reload of the page.
    persistAuthorization: true,
    // Swagger UI would send the document to a validator of its vendor.
    validatorUrl: null,
    // `@nestjs/swagger` writes the source of this function into the page, which has no viewport: a phone
    // would show it as wide as a desktop.
    onComplete: () =>
      document.head.insertAdjacentHTML(
        'beforeend',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
      ),
  },
};
