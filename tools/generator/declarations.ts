/** Where names that generated code uses are declared: a module, after `type ` if the name is that of a type. */
export type Declarations = Readonly<Record<string, string>>;

/** What the platform and its libraries declare. */
export const DECLARATIONS: Declarations = {
  ...declare(
    '@nestjs/common',
    'applyDecorators Body Controller Delete Get Injectable Patch Post Put Query StreamableFile VERSION_NEUTRAL',
  ),
  ...declare('@nestjs/swagger', 'ApiSchema'),
  ...declare('@nestjs/typeorm', 'InjectRepository'),
  ...declare(
    'typeorm',
    'Check Column Entity ForeignKey Index PrimaryColumn Repository Table TableColumn Unique *MigrationInterface *QueryRunner',
  ),
  ...declare('src/platform/config/max-id.js', 'MAX_ID'),
  ...declare(
    'src/platform/database/lists/revision-trigger.js',
    'addRevisionTrigger dropRevisionTrigger',
  ),
  ...declare(
    'src/platform/database/statements/columns.js',
    'bigintTransformer dateTimeTransformer IdColumn idColumn uuidTransformer VersionColumn versionColumn',
  ),
  ...declare('src/platform/database/statements/row-mapping.js', 'anyItem'),
  ...declare('src/platform/errors/api-error.js', 'ApiError'),
  ...declare('src/platform/auth/public.decorator.js', 'Public'),
  ...declare('src/platform/feature.decorator.js', 'Feature'),
  ...declare('src/platform/http/responses/cached-json-response.js', '*CachedJsonResponse'),
  ...declare('src/platform/idempotency/idempotency-key.decorator.js', 'IdempotencyKey'),
  ...declare('src/platform/resource/operation/binary-body.decorator.js', 'BinaryBody'),
  ...declare('src/platform/resource/operation/form-body.decorator.js', 'FormBody'),
  ...declare('src/platform/resource/operation/id-param.decorator.js', 'IdParam'),
  ...declare('src/platform/resource/operation/if-match.decorator.js', 'IfMatch *VersionCriteria'),
  ...declare('src/platform/resource/operation/json-body.decorator.js', 'JsonBody'),
  ...declare('src/platform/resource/operation/operation.decorator.js', 'Operation'),
  ...declare('src/platform/resource/operation/unsupported.js', 'refuseQuery'),
  ...declare('src/platform/resource/password.js', 'hashPassword'),
  ...declare('src/platform/validation/property.js', 'Property'),
  ...declare('src/platform/resource/resource.js', '*Complete *Resource'),
  ...declare('src/platform/resource/resource-kit.js', 'ResourceKit'),
  ...declare('src/platform/resource/operation/versioned.js', 'ReturnsEtag *Versioned'),
  ...declare('test/platform/support/app.js', 'startApp'),
  ...declare('test/platform/support/contract-driver.js', 'describeContract'),
  ...declare('test/platform/support/describe-resource.js', 'describeResource'),
  ...declare('test/platform/support/fixtures.js', 'insertPath insertRow'),
};

/** @param names separated by spaces; those of types have a `*` */
export function declare(module: string, names: string): Declarations {
  return Object.fromEntries(
    names
      .split(' ')
      .map((name) => [name.replace('*', ''), name.startsWith('*') ? `type ${module}` : module]),
  );
}
