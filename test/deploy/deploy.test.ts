import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { loadCommands } from '#cli/run'
import { loadConfig } from '#config/load'
import { createMetrics } from '#server/telemetry/metrics'

const FOLDER = resolve(import.meta.dirname, '../../deploy')
const ENVIRONMENT = resolve(import.meta.dirname, '../../src/config/environment.ts')

function textOf(file: string): string {
  return readFileSync(join(FOLDER, file), 'utf8')
}

/** Every member of a document with this name, at any depth. */
function membersOf(document: unknown, name: string): readonly unknown[] {
  if (typeof document !== 'object' || document === null) return []
  return Object.entries(document).flatMap(([key, value]) => [
    ...(key === name ? [value] : []),
    ...membersOf(value, name),
  ])
}

/** The samples of `/metrics` after every kind of event, by name, with the names of their labels. */
async function samples(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const metrics = createMetrics()
  metrics.callStarted()
  metrics.callEnded({ tool: 'A.B@1.0.0', tenant: 'acme', outcome: 'ok', durationMs: 1, isReplay: false })
  metrics.requestAnswered('/tools', 'GET', 200)
  metrics.limitRefused('delay')
  metrics.groupCommitted(1, 1)
  metrics.follow({
    certificateEndsAtMs: () => 0,
    sources: () => [
      {
        ...{ key: 'S', type: 'mcp', kind: 'mcp', state: 'ready', sinceMs: 0, tools: 1, waiting: 0 },
        ...{
          warnings: [],
          findings: [],
          toolWarnings: [],
          prompts: 0,
          templates: 0,
          skills: 0,
          ineffective: [],
        },
      },
    ],
  })
  const { text } = await metrics.render()
  const found = new Map<string, ReadonlySet<string>>([['up', new Set(['job', 'instance'])]])
  for (const line of text.split('\n')) {
    const [, name, labels = ''] = /^([a-z]\w*)(?:\{(.*)\})? /i.exec(line) ?? []
    if (name === undefined) continue
    found.set(
      name,
      new Set(['job', 'instance', ...[...labels.matchAll(/(\w+)="/g)].map(([, label = '']) => label)]),
    )
  }
  return found
}

interface Use {
  readonly metric: string
  readonly labels: readonly string[]
}

/** Metrics of an expression, each with the labels of its selector, and all labels of its aggregations. */
function usesOf(expression: string): readonly Use[] {
  const by = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(/,\s*/))
  return [...expression.matchAll(/\b((?:collet|process|nodejs)_\w+|up\b)(?:\{([^}]*)\})?/g)].map(
    ([, metric = '', chosen = '']) => ({
      metric,
      labels: [...by, ...[...chosen.matchAll(/(\w+)\s*=/g)].map(([, label = '']) => label)],
    }),
  )
}

const LIST = z.array(z.string())
const COMPOSE = z.object({
  services: z.record(
    z.string(),
    z.looseObject({
      environment: z.record(z.string(), z.string()).optional(),
      secrets: LIST.optional(),
      cap_add: LIST.optional(),
      networks: z.union([LIST, z.record(z.string(), z.unknown())]).optional(),
    }),
  ),
  secrets: z.record(z.string(), z.unknown()),
})

function networkNames(
  networks: readonly string[] | Readonly<Record<string, unknown>> = [],
): readonly string[] {
  return Array.isArray(networks) ? networks : Object.keys(networks)
}

const PORTS = z.array(z.object({ name: z.string(), containerPort: z.number() }))

describe('monitoring of a server', () => {
  const alerts: unknown = parse(textOf('alerts.yaml'))
  const board: unknown = JSON.parse(textOf('grafana-board.json'))

  it.each([
    ['alerts.yaml', alerts, 13],
    ['grafana-board.json', board, 19],
  ])('%s uses only metrics and labels that a server has', async (_file, document, most) => {
    const known = await samples()
    const expressions = membersOf(document, 'expr').map(String)
    expect(expressions).toHaveLength(most)
    const wrong = expressions.flatMap(usesOf).flatMap(({ metric, labels }) => {
      const has = known.get(metric)
      if (has === undefined) return [`${metric} is not there`]
      return labels.filter((label) => !has.has(label)).map((label) => `${metric} has no ${label}`)
    })
    expect(wrong).toEqual([])
    expect(expressions.filter((expression) => usesOf(expression).length === 0)).toEqual([])
  })

  it('gives advice with every alert', () => {
    const notes = membersOf(alerts, 'annotations')
    expect(notes).toHaveLength(membersOf(alerts, 'alert').length)
    for (const note of notes)
      expect(note).toMatchObject({ summary: expect.any(String), action: expect.any(String) })
  })

  it('detects a metric and a label that do not exist', async () => {
    const known = await samples()
    expect(known.has('collet_calls_lost')).toBe(false)
    expect(usesOf('sum by (le) (rate(collet_calls_total{tool="x"}[5m]))')).toEqual([
      { metric: 'collet_calls_total', labels: ['le', 'tool'] },
    ])
    expect(known.get('collet_calls_total')?.has('le')).toBe(false)
  })
})

describe('compose.yaml', () => {
  const compose = COMPOSE.parse(parse(textOf('compose.yaml'), { merge: true }))
  const { services } = compose

  it('mounts only files that exist', () => {
    const mounted = membersOf(services, 'volumes')
      .flat()
      .map(String)
      .filter((volume) => volume.startsWith('./'))
    expect(mounted.length).toBeGreaterThan(3)
    for (const volume of mounted) expect(existsSync(join(FOLDER, volume.split(':')[0] ?? ''))).toBe(true)
  })

  it('runs two servers that can write only to their own folder, and passes their variables', () => {
    const replica = { build: { dockerfile: 'deploy/Dockerfile' }, read_only: true }
    expect(services).toMatchObject({ 'collet-1': replica, 'collet-2': replica })
    expect(textOf('Caddyfile')).toMatch(/collet-1.*collet-2/)
  })

  it('gives no service a capability that it does not need, nor a way to get one', () => {
    const added = Object.entries(services).map(([name, { cap_add = [] }]) => [name, cap_add])
    expect(Object.fromEntries(added)).toEqual({
      postgres: ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'SETGID', 'SETUID'],
      'collet-1': [],
      'collet-2': [],
      proxy: ['NET_BIND_SERVICE'],
      prometheus: [],
    })
    for (const service of Object.values(services))
      expect(service).toMatchObject({ cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] })
  })

  it('keeps the proxy away from the database, the port between servers and the metrics', () => {
    const networksOf = (name: string) => networkNames(services[name]?.networks)
    expect(networksOf('proxy')).toEqual(['edge'])
    expect(networksOf('postgres')).toEqual(['database'])
    expect(networksOf('prometheus')).toEqual(['metrics'])
    for (const replica of [1, 2]) {
      const { environment, networks } = services[`collet-${replica}`] ?? {}
      expect(networks).toMatchObject({
        replicas: { aliases: [environment?.COLLET_INTERNAL_HOST] },
        metrics: { aliases: [environment?.COLLET_METRICS_HOST] },
      })
      expect(textOf('prometheus.yaml')).toContain(environment?.COLLET_METRICS_HOST)
    }
  })

  it('has no secret in a variable: each is a file that is mounted', () => {
    for (const [name, { environment = {}, secrets = [] }] of Object.entries(services)) {
      for (const [variable, value] of Object.entries(environment)) {
        if (!/KEY|PASSWORD/.test(variable)) continue
        expect(variable, name).toMatch(/_FILE$/)
        expect(secrets, name).toContain(value.replace('/run/secrets/', ''))
      }
      for (const secret of secrets) {
        expect(textOf('compose.yaml')).toMatch(new RegExp(`(> |touch )deploy/secrets/${secret}$`, 'm'))
        expect(compose.secrets[secret]).toEqual({ file: `./secrets/${secret}` })
      }
    }
    expect(textOf('.gitignore')).toContain('/secrets/')
    expect(textOf('Dockerfile.dockerignore')).toContain('deploy/secrets')
  })
})

describe('the config for a container', () => {
  it('is accepted, and requires a key of every caller', async () => {
    const { config } = await loadConfig(join(FOLDER, 'collet.config.ts'))
    expect(config.auth.required).toBe(true)
    // A replica that listens only on loopback gets no calls of its sessions from the other container.
    const internal = { host: '0.0.0.0', port: 4110 }
    expect(config.server).toMatchObject({ host: '0.0.0.0', metricsPort: 9464, internal })
  })

  it.each(['compose.yaml', 'kubernetes.yaml'])('gets from %s only variables that are read', (file) => {
    const read = [textOf('collet.config.ts'), readFileSync(ENVIRONMENT, 'utf8')].join('\n')
    const given = [...textOf(file).matchAll(/\b((?:COLLET|POSTGRES)_[A-Z_]+)(?:: |,)/g)].map(
      ([, name = '']) => name,
    )
    expect(given.length).toBeGreaterThan(4)
    // The image of PostgreSQL reads these two itself.
    const unread = given.filter((name) => !read.includes(name.replace(/(KEY|KEY_OLD)_FILE$/, '$1')))
    expect([...new Set(unread)]).toEqual(file === 'compose.yaml' ? ['POSTGRES_DB', 'POSTGRES_USER'] : [])
  })
})

describe('kubernetes.yaml', () => {
  const text = textOf('kubernetes.yaml')
  const documents: readonly unknown[] = parseAllDocuments(text).map((document) => document.toJS())
  const kindOf = (document: unknown) => membersOf(document, 'kind')[0]
  const ofKind = (kind: string) => documents.find((document) => kindOf(document) === kind)
  const only = (kind: string, name: string) => membersOf(ofKind(kind), name)[0]
  const ports = PORTS.parse(only('Deployment', 'ports'))

  it('has each part once', () => {
    expect(documents.map(kindOf)).toEqual([
      'Deployment',
      'PodDisruptionBudget',
      'Service',
      'Ingress',
      'NetworkPolicy',
    ])
  })

  it('runs three unprivileged servers, of which two stay while a node is drained', () => {
    expect(ofKind('Deployment')).toMatchObject({ spec: { replicas: 3 } })
    expect(ofKind('PodDisruptionBudget')).toMatchObject({ spec: { minAvailable: 2 } })
    const [pod, container] = membersOf(ofKind('Deployment'), 'securityContext')
    expect(pod).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } })
    expect(container).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    expect(only('Deployment', 'automountServiceAccountToken')).toBe(false)
  })

  it('names the ports of the config, and the others by these names', async () => {
    const { config } = await loadConfig(join(FOLDER, 'collet.config.ts'))
    const { port, metricsPort, internal } = config.server
    expect(Object.fromEntries(ports.map(({ name, containerPort }) => [name, containerPort]))).toEqual({
      http: port,
      metrics: metricsPort,
      internal: internal?.port,
    })
    const names = ports.map(({ name }) => name)
    const targets = [
      ...membersOf(ofKind('Service'), 'targetPort'),
      ...['startupProbe', 'readinessProbe', 'livenessProbe'].flatMap((probe) =>
        membersOf(only('Deployment', probe), 'port'),
      ),
    ]
    expect(targets).toEqual(['http', 'http', 'http', 'http'])
    const admitted = membersOf(membersOf(ofKind('NetworkPolicy'), 'ingress')[0], 'port')
    expect(admitted.toSorted()).toEqual(names.toSorted())
    expect(membersOf(ofKind('Ingress'), 'service')).toEqual([{ name: 'collet', port: { name: 'http' } }])
  })

  it('probes /health, and waits longer than a server takes to stop', async () => {
    for (const probe of ['startupProbe', 'readinessProbe'])
      expect(only('Deployment', probe)).toMatchObject({ httpGet: { path: '/health' } })
    const { config } = await loadConfig(join(FOLDER, 'collet.config.ts'))
    const graceMs = 1_000 * Number(only('Deployment', 'terminationGracePeriodSeconds'))
    expect(graceMs).toBeGreaterThan(config.server.drainMs + 10_000)
    const readiness = z
      .object({ periodSeconds: z.number(), failureThreshold: z.number() })
      .parse(only('Deployment', 'readinessProbe'))
    expect(config.server.drainMs).toBeGreaterThan(
      1_000 * readiness.periodSeconds * readiness.failureThreshold,
    )
  })

  it('mounts only objects that the commands above it create', () => {
    const volumes = membersOf(membersOf(ofKind('Deployment'), 'volumes')[0], 'name')
    for (const mount of membersOf(membersOf(ofKind('Deployment'), 'volumeMounts')[0], 'name'))
      expect(volumes).toContain(mount)
    expect(text).toMatch(/create secret generic collet .*collet-key=.*postgres-password/)
    expect(text).toContain('create configmap collet-config --from-file=deploy/collet.config.ts')
    const files = [...text.matchAll(/\/run\/secrets\/collet\/([\w-]+)/g)].map(([, name]) => name)
    expect(files).toEqual(['collet-key', 'postgres-password'])
  })

  it('starts an existing command', async () => {
    const [name] = LIST.parse(only('Deployment', 'args'))
    expect((await loadCommands()).map((command) => command.name)).toContain(name)
  })
})

describe('the Dockerfile', () => {
  const text = textOf('Dockerfile').replaceAll('\\\n', ' ')
  const lines = text.split('\n')
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM')))

  it('runs as an unprivileged user, with a health check and the packed package', () => {
    expect(last).toContain('USER node')
    expect(last.join('\n')).toMatch(/^HEALTHCHECK .*127\.0\.0\.1:4100\/health/m)
    expect(last.filter((line) => line.startsWith('COPY'))).toEqual(['COPY --from=install /app /app'])
  })

  it('has a base with glibc, which the Node of the npm scripts needs', () => {
    expect(/^ARG NODE=(.*)$/m.exec(text)?.[1]).toBe('24-bookworm-slim')
    for (const line of lines.filter((one) => one.startsWith('FROM')))
      expect(line).toMatch(/^FROM node:\$\{NODE\}/)
  })

  it('copies only files that exist, and installs dependencies before it copies the sources', () => {
    const copies = lines.flatMap((line) => /^COPY (?!--from)(.+) \S+$/.exec(line)?.[1]?.split(' ') ?? [])
    expect(copies).toEqual(['package.json', 'package-lock.json', '.'])
    for (const source of copies) expect(existsSync(join(FOLDER, '..', source))).toBe(true)
    expect(lines.indexOf('RUN npm ci --no-audit --no-fund')).toBeLessThan(lines.indexOf('COPY . .'))
  })

  it('runs programs that the base has', () => {
    const commands = lines.flatMap((line) => /^RUN (.+)$/.exec(line)?.[1]?.split(' && ') ?? [])
    const programs = new Set(commands.map((command) => command.trim().split(' ')[0]))
    expect([...programs].toSorted()).toEqual(['apt-get', 'chown', 'ln', 'mkdir', 'npm', 'rm', 'tar'])
  })

  it('has a working health command that succeeds only while the server is ready', async () => {
    const [, json = ''] = /^HEALTHCHECK .* CMD (\[.*\])$/m.exec(text) ?? []
    const [program, ...rest] = LIST.parse(JSON.parse(json))
    expect(program).toBe('node')
    let status = 200
    const server = createServer((_request, response) => response.writeHead(status).end()).listen(
      0,
      '127.0.0.1',
    )
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? String(address?.port) : ''
    const check = async (): Promise<unknown> =>
      (
        await once(
          spawn(
            process.execPath,
            rest.map((word) => word.replace('4100', port)),
          ),
          'exit',
        )
      )[0]
    expect(await check()).toBe(0)
    status = 503
    expect(await check()).toBe(1)
    server.closeAllConnections()
    server.close()
    expect(await check()).toBe(1)
  })
})

describe('the systemd unit', () => {
  it('reloads on a signal, and has no unneeded privileges', () => {
    const unit = textOf('collet.service')
    expect(unit).not.toMatch(/npmjs|npx|npm install collet/)
    expect(unit).toMatch(/^ExecReload=.*-HUP/m)
    for (const line of [
      'DynamicUser=yes',
      'ProtectSystem=strict',
      'NoNewPrivileges=yes',
      'CapabilityBoundingSet=',
      // Without netlink Node cannot list the addresses of the machine, and throws.
      'RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK',
    ]) {
      expect(unit.split('\n')).toContain(line)
    }
  })
})
