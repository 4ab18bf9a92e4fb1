/**
 * The layers of src, from low to high: a file imports its own layer and the lines above it, whose entries do
 * not import each other. The files of src itself and src/cli may import everything.
 */
const LAYERS = [
  ['platform/config', 'platform/errors'],
  ['platform/logging', 'platform/validation'],
  ['platform/http'],
  ['platform/metrics'],
  ['platform/database/connection'],
  ['platform/database/statements'],
  ['platform/database/lists'],
  ['platform/database'],
  ['platform/auth/keys'],
  ['platform/auth'],
  ['platform/idempotency', 'platform/deprecation'],
  ['platform/health', 'platform/openapi'],
  ['platform/feature.decorator[.]ts'],
  ['platform/resource/operation'],
  ['platform/resource'],
  ['platform/index[.]ts', 'platform/application'],
  ['modules/([^/]+)'],
];

const toPath = (name) => `^src/${name}(/|$)`;
const forbid = (name, from, allowed) => ({
  name,
  severity: 'error',
  from,
  to: { path: '^src/', pathNot: allowed },
});

/** The layers of the generator; those before `read` are files. */
const STAGES = ['model', 'names', 'read', 'plan', 'write'];
const GENERATOR = '^tools/generator/';

export default {
  forbidden: [
    ...STAGES.slice(2).map((stage) => ({
      name: `stage ${stage}`,
      severity: 'error',
      from: { path: `${GENERATOR}(${STAGES.slice(0, STAGES.indexOf(stage)).join('|')})\\b` },
      to: { path: `${GENERATOR}${stage}/` },
    })),
    ...LAYERS.flatMap((names, level) =>
      names.map((name) => {
        const lower = LAYERS.slice(0, level).flat().map(toPath);
        const from = { path: toPath(name), pathNot: lower };
        // A module imports none of the others.
        return forbid(`layer ${name}`, from, [...lower, toPath(name).replace('([^/]+)', '$1')]);
      }),
    ),
    {
      name: 'modules import only the public names of the platform',
      severity: 'error',
      from: { path: '^(src/modules|examples)/' },
      to: { path: '^src/platform/', pathNot: '^src/platform/index[.]ts$' },
    },
    {
      name: 'tests of modules import only the public names of the tests of the platform',
      severity: 'error',
      from: { path: '^(test/modules|examples)/' },
      to: { path: '^(src|test)/platform/', pathNot: '^(src|test)/platform/index[.]ts$' },
    },
    {
      name: 'src imports only dependencies, which a production build installs',
      severity: 'error',
      from: { path: '^src/' },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown', 'unknown'],
        dependencyTypesNot: ['type-only'],
      },
    },
    forbid('no layer', {
      path: '^src/(platform|modules)/',
      pathNot: LAYERS.flat().map(toPath),
    }),
  ],
  options: {
    parser: 'swc',
    tsPreCompilationDeps: true,
    includeOnly: '^(src|examples|test|tools/generator|node_modules)/',
    doNotFollow: { path: '^node_modules/' },
  },
};
