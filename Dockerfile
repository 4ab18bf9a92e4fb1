# The tests run on this version; every one that package.json's engines name will do.
ARG NODE_VERSION=20

FROM node:${NODE_VERSION}-bookworm AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --no-fund --no-audit
COPY nest-cli.json tsconfig.json tsconfig.build.json ormconfig.ts ./
COPY src src
RUN npm run build
# Optional ones too, or TypeScript would stay: it is an optional peer of @nestjs/swagger.
RUN npm prune --omit=dev --omit=optional
# The one place that the service writes to.
RUN mkdir data

FROM node:${NODE_VERSION}-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build --chown=node:node /app/data data
USER node
VOLUME /app/data
EXPOSE 3000
# Not /readyz: a container is not to be replaced because its database is away.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/livez`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/src/main.js"]
