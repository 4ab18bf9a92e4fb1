import type { SwaggerCustomOptions } from '@nestjs/swagger';
import { accessibilityPlugin } from './accessibility-plugin.js';
import { swaggerUiCss } from './swagger-ui-css.js';

/** The appearance and the behaviour of Swagger UI. */
export const swaggerUiOptions: SwaggerCustomOptions = {
  customSiteTitle: 'Petstore API',
  customCss: swaggerUiCss,
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
