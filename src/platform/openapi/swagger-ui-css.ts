/** The CSS that is added to that of Swagger UI. */
export const swaggerUiCss = `
/* Contrasts of WCAG 2.1 AA (1.4.3), which the stock page misses, and a layout for narrow screens. */
@media not all and (prefers-color-scheme: dark) {
  .swagger-ui .info .title small {
    background: #5c6370;
  }
  .swagger-ui .info .title small.version-stamp {
    background: #4a6b00;
  }
  .swagger-ui .info a {
    color: #1b62b5;
  }
  .swagger-ui .opblock.opblock-get .opblock-summary-method {
    background: #1b62b5;
  }
  .swagger-ui .opblock.opblock-post .opblock-summary-method {
    background: #137a4b;
  }
  .swagger-ui .opblock.opblock-put .opblock-summary-method {
    background: #8a4b00;
  }
  .swagger-ui .opblock.opblock-patch .opblock-summary-method {
    background: #0b6b7d;
  }
  .swagger-ui .opblock.opblock-delete .opblock-summary-method {
    background: #b3261e;
  }
  .swagger-ui .opblock.opblock-deprecated .opblock-summary-method {
    background: #5c6370;
  }
  .swagger-ui .opblock.opblock-deprecated .opblock-summary-description {
    color: #3b4151;
  }
  .swagger-ui .btn.authorize {
    border-color: #137a4b;
    color: #137a4b;
  }
  .swagger-ui .btn.authorize svg {
    fill: #137a4b;
  }
  .swagger-ui .btn.execute {
    background-color: #1b62b5;
    border-color: #1b62b5;
  }
  .swagger-ui .btn.cancel {
    border-color: #b3261e;
    color: #b3261e;
  }
  .swagger-ui .parameter__in,
  .swagger-ui .prop-format,
  .swagger-ui table.headers .header-example {
    color: #5c6370;
  }
  .swagger-ui .parameter__name.required span,
  .swagger-ui .parameter__name.required:after {
    color: #b3261e;
  }
  .swagger-ui .markdown code,
  .swagger-ui .renderedMarkdown code {
    color: #6a00c2;
  }
  .swagger-ui .response-control-media-type__accept-message {
    color: #137a4b;
  }
  .swagger-ui .highlight-code .download-contents {
    background: #4a5060;
  }
}
.swagger-ui .highlight-code .microlight code span[style*='211, 99, 99'] {
  color: #ff9d9d !important;
}
html.dark-mode .swagger-ui table.headers td,
html.dark-mode .swagger-ui table.headers .header-col {
  color: #e4e6e6;
}
html.dark-mode .swagger-ui .opblock.opblock-deprecated .opblock-summary-method {
  background: #9aa2ab;
}
.swagger-ui .opblock.opblock-deprecated {
  opacity: 1;
}
.swagger-ui .stability {
  align-self: flex-start;
  padding: 1px 8px;
  border: 1px solid currentcolor;
  border-radius: 10px;
  font: 600 12px sans-serif;
}
.swagger-ui .wrapper {
  box-sizing: border-box;
}
.swagger-ui .markdown,
.swagger-ui .renderedMarkdown {
  overflow-x: auto;
}
@media (max-width: 640px) {
  .swagger-ui .wrapper {
    padding: 0 10px;
  }
  .swagger-ui .scheme-container .schemes {
    flex-wrap: wrap;
    gap: 10px;
  }
  .swagger-ui .opblock .opblock-summary-description {
    display: none;
  }
  .swagger-ui .opblock .opblock-summary-path {
    max-width: none;
  }
  .swagger-ui .response-col_links {
    display: none;
  }
  .swagger-ui .opblock-body table {
    table-layout: fixed;
  }
  .swagger-ui .response-col_status {
    width: 64px;
  }
  .swagger-ui .response-col_description {
    overflow-wrap: anywhere;
  }
  .swagger-ui .microlight,
  .swagger-ui .microlight * {
    white-space: pre-wrap !important;
    overflow-wrap: anywhere;
  }
}
`;
