import { readFileSync } from 'node:fs';
import type { SwaggerCustomOptions } from '@nestjs/swagger';
import { accessibilityPlugin } from './accessibility-plugin.js';

/** The appearance and the behaviour of Swagger UI. */
export const swaggerUiOptions: SwaggerCustomOptions = {
  customSiteTitle: 'Petstore API',
  customCss: readFileSync(new URL('swagger-ui.css', import.meta.url), 'utf8'),
  swaggerOptions: {
    // The key survives a reload of the page.
    persistAuthorization: true,
    // Hides the top bar of Swagger UI.
    layout: 'BaseLayout',
    // Swagger UI would send the document to a validator of its vendor.
    validatorUrl: null,
    plugins: [accessibilityPlugin],
  },
};
