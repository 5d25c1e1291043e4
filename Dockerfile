# The service and the watcher: `firstfault serve` and `firstfault-watcher`. Pin PYTHON by its digest to build the same again.
ARG PYTHON=python:3.12-slim-bookworm

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/build && /opt/build/bin/pip install --require-hashes -r requirements-build.lock
RUN python -m venv /opt/firstfault && /opt/firstfault/bin/pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY bot bot
COPY hooks hooks
COPY knowledge knowledge
COPY storage storage
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /opt/wheels .
RUN /opt/firstfault/bin/pip install --no-deps --no-index /opt/wheels/*.whl

FROM ${PYTHON}
COPY --from=build /opt/firstfault /opt/firstfault
ENV PATH=/opt/firstfault/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1
# The root file system may be read-only: what is written goes to /var/lib/firstfault and /tmp.
ENV FIRSTFAULT_DATA_DIR=/var/lib/firstfault
USER 10001:10001
EXPOSE 8642 8643
CMD ["firstfault", "serve"]
