# joey as an ordinary user, with git and bubblewrap:
#
#   docker build -t joey .
#   docker run --rm -it -v "$PWD:/workspace" -e ANTHROPIC_API_KEY joey "fix the failing test"
#
# docs/releasing.md says which sandbox works in a container.

FROM node:22-slim AS page
WORKDIR /src
COPY web web
RUN cd web && npm install --no-save --silent && npm run --silent build

FROM python:3.13-slim AS packages
WORKDIR /src
COPY . .
COPY --from=page /src/src/joey/server/web src/joey/server/web
RUN pip wheel --quiet --no-deps --wheel-dir /packages .

FROM python:3.13-slim
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends bubblewrap git \
    && rm -rf /var/lib/apt/lists/*
COPY requirements.lock /tmp/
RUN --mount=type=bind,from=packages,source=/packages,target=/packages \
    pip install --quiet --no-cache-dir --require-hashes -r /tmp/requirements.lock \
    && pip install --quiet --no-cache-dir --no-deps /packages/*.whl \
    && rm /tmp/requirements.lock \
    && useradd --create-home joey \
    && install -d -o joey -g joey /workspace
USER joey
WORKDIR /workspace
ENTRYPOINT ["joey"]
