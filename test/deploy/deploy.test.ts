import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { loadConfig } from '#config/load'
import { createMetrics } from '#server/telemetry/metrics'

const FOLDER = resolve(import.meta.dirname, '../../deploy')

function textOf(file: string): string {
  return readFileSync(join(FOLDER, file), 'utf8')
}

/** Every member of a document that is called so, wherever it is. */
function membersOf(document: unknown, name: string): readonly unknown[] {
  if (typeof document !== 'object' || document === null) return []
  return Object.entries(document).flatMap(([key, value]) => [
    ...(key === name ? [value] : []),
    ...membersOf(value, name),
  ])
}

/** The samples that `/metrics` has once everything has happened, by name, with the names of their labels. */
async function samples(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const metrics = createMetrics()
  metrics.callStarted()
  metrics.callEnded({ tool: 'A.B@1.0.0', tenant: 'acme', outcome: 'ok', durationMs: 1, isReplay: false })
  metrics.requestAnswered('/tools', 'GET', 200)
  metrics.limitRefused('delay')
  metrics.groupCommitted(1, 1)
  metrics.followCertificate(() => 0)
  metrics.followSources(() => [
    {
      ...{ key: 'S', type: 'mcp', kind: 'mcp', state: 'ready', sinceMs: 0, tools: 1, waiting: 0 },
      ...{ warnings: [], findings: [], oddities: [], idle: [] },
    },
  ])
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

/** What an expression asks for: each metric with the labels it is chosen by, and all labels it is summed by. */
function usesOf(expression: string): readonly Use[] {
  const by = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(/,\s*/))
  return [...expression.matchAll(/\b((?:collet|process|nodejs)_\w+|up\b)(?:\{([^}]*)\})?/g)].map(
    ([, metric = '', chosen = '']) => ({
      metric,
      labels: [...by, ...[...chosen.matchAll(/(\w+)\s*=/g)].map(([, label = '']) => label)],
    }),
  )
}

describe('what watches a server', () => {
  const alerts: unknown = parse(textOf('alerts.yaml'))
  const board: unknown = JSON.parse(textOf('grafana-board.json'))

  it.each([
    ['alerts.yaml', alerts, 13],
    ['grafana-board.json', board, 19],
  ])('%s asks for metrics and labels that a server has', async (_file, document, most) => {
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

  it('says with every alert what to do', () => {
    const notes = membersOf(alerts, 'annotations')
    expect(notes).toHaveLength(membersOf(alerts, 'alert').length)
    for (const note of notes)
      expect(note).toMatchObject({ summary: expect.any(String), action: expect.any(String) })
  })

  it('notices a metric and a label that are not there', async () => {
    const known = await samples()
    expect(known.has('collet_calls_lost')).toBe(false)
    expect(usesOf('sum by (le) (rate(collet_calls_total{tool="x"}[5m]))')).toEqual([
      { metric: 'collet_calls_total', labels: ['le', 'tool'] },
    ])
    expect(known.get('collet_calls_total')?.has('le')).toBe(false)
  })
})

describe('compose.yaml', () => {
  const compose: unknown = parse(textOf('compose.yaml'))

  it('mounts files that are there', () => {
    const mounted = membersOf(compose, 'volumes')
      .flat()
      .map(String)
      .filter((volume) => volume.startsWith('./'))
    expect(mounted.length).toBeGreaterThan(3)
    for (const volume of mounted) expect(existsSync(join(FOLDER, volume.split(':')[0] ?? ''))).toBe(true)
  })

  it('runs two servers that can write nothing but their own folder, and hands on what they need', () => {
    const replica = {
      build: { dockerfile: 'deploy/Dockerfile' },
      read_only: true,
      cap_drop: ['ALL'],
      environment: {
        COLLET_KEY: expect.stringContaining('COLLET_KEY:?'),
        COLLET_KEY_OLD: expect.stringContaining('COLLET_KEY_OLD:-'),
        PGHOST: 'postgres',
      },
    }
    expect(compose).toMatchObject({ services: { 'collet-1': replica, 'collet-2': replica } })
    for (const file of ['Caddyfile', 'prometheus.yaml']) expect(textOf(file)).toMatch(/collet-1.*collet-2/)
  })
})

describe('the config for a container', () => {
  it('is accepted, and lets nobody in without a key', async () => {
    const { config } = await loadConfig(join(FOLDER, 'collet.config.ts'))
    expect(config.auth.required).toBe(true)
    // A replica that is reached at loopback alone gets no calls of its sessions from the other container.
    const internal = { host: '0.0.0.0', port: 4110 }
    expect(config.server).toMatchObject({ host: '0.0.0.0', metricsPort: 9464, internal })
  })
})

describe('the Dockerfile', () => {
  const lines = textOf('Dockerfile').split('\n')
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM')))

  it('ends as a user without rights, with a check of health and the package that was packed', () => {
    expect(last).toContain('USER node')
    expect(last.join('\n')).toMatch(/^HEALTHCHECK .*127\.0\.0\.1:4100\/health/m)
    expect(last.filter((line) => line.startsWith('COPY'))).toEqual(['COPY --from=install /app /app'])
  })
})

describe('the systemd unit', () => {
  it('reloads by a signal, and has no rights it does not need', () => {
    const unit = textOf('collet.service')
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
