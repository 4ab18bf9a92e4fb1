# The newest release line. Any version in the engines of package.json works.
ARG NODE_VERSION=26

FROM node:${NODE_VERSION}-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY scripts/build-production.sh scripts/write-commit.js scripts/
RUN sh scripts/build-production.sh install
COPY tsconfig.json tsconfig.build.json ./
COPY src src
# docker build --build-arg SOURCE_COMMIT=$(git rev-parse HEAD), because the image has no repository.
ARG SOURCE_COMMIT=
RUN sh scripts/build-production.sh build && chown node compile-cache
USER node
RUN sh scripts/build-production.sh warm

FROM node:${NODE_VERSION}-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0 NODE_COMPILE_CACHE=/app/compile-cache
WORKDIR /app
COPY docs docs
COPY examples/client.ts examples/curl.sh examples/
COPY --from=build /app/package.json /app/sbom.cdx.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/compile-cache compile-cache
# The only directory that the service can write to.
COPY --from=build --chown=node:node /app/data data
USER node
VOLUME /app/data
EXPOSE 3000
# Not /readyz: restarting the container does not help while the database is unavailable.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["node", "dist/cli/health.js"]
CMD ["node", "dist/main.js"]
