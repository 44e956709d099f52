import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { z } from 'zod'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { isToolError, type ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { findConfinement } from '#sources/common/process'
import { createPackSource } from '#sources/pack/index'
import { PACK_OPTIONS } from '#sources/pack/options'
import { ALICE } from '#testing/test-gateway'
import { contextFor } from './pack-context.ts'

type Options = Partial<z.input<typeof PACK_OPTIONS>>

const HERE = import.meta.dirname
const LIMIT_MS = 40_000
const { bwrap: BWRAP } = await findConfinement(process.env.PATH ?? '')

function openSource(options: Options = {}, folder = HERE) {
  const parsed = PACK_OPTIONS.parse({ type: 'pack', path: 'packs/notes', ...options })
  const environment = { HOME: '/home/somebody', TZ: 'UTC' }
  const unusable = () => Promise.reject(new Error('a pack has no egress of its own'))
  const services = { fetch: unusable, clock: SYSTEM_CLOCK, log: SILENT_LOGGER, folder, environment }
  const source = createPackSource('Notes', parsed, services)
  onTestFinished(() => source.close())
  return source
}

async function opened(options: Options = {}, folder = HERE) {
  const source = openSource(options, folder)
  const discovery = await source.discover(new AbortController().signal)
  const invoke = (nativeName: string, input: JsonObject = {}, context = contextFor()) =>
    source.invoke({ nativeName, binding: {}, input, context })
  return { source, discovery, invoke }
}

async function failureOf(work: Promise<unknown>): Promise<ToolError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return isToolError(error) ? error : expect.fail(`not a ToolError: ${String(error)}`)
}

function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'collet-pack-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

/** The source of a tool with the mark of `tool()`, for packs that cannot import this package from their folder. */
function toolText(id: string, run = '() => 1'): string {
  return `{ [Symbol.for('collet.tool')]: true, id: '${id}', description: 'D.', input: { type: 'object' }, output: {}, run: ${run} }`
}

/** With the sandbox where this machine has one; without it the same applies except for the network. */
const SANDBOX = BWRAP === undefined ? ([] as const) : ([['process', 'required', 'safe-fetch']] as const)
const WAYS = [['none', 'none', 'host-owned'], ['process', 'none', 'host-owned'], ...SANDBOX] as const

describe.each(WAYS)(
  'a pack with isolation %s, sandbox %s',
  { timeout: LIMIT_MS },
  (isolation, sandbox, egress) => {
    const ready = (options: Options = {}, folder = HERE) => opened({ ...options, sandbox }, folder)
    const open = (options: Options = {}, folder = HERE) => openSource({ ...options, sandbox }, folder)

    it('openwop §7.2: offers its tools as writes, whatever they declare (OWP-33)', async () => {
      const { discovery, source } = await ready({ isolation })
      expect(discovery.identity).toMatchObject({
        type: 'pack',
        name: 'community.example.notes',
        version: '1.2.0',
      })
      expect(discovery.warnings).toEqual([])
      expect(discovery.tools.map((tool) => source.policyFor?.(tool).egress)).toContain(egress)
      const shout = discovery.tools.find(({ nativeName }) => nativeName === 'Shout')
      expect(shout).toMatchObject({
        description: 'Says it louder.',
        inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
        outputSchema: { type: 'string' },
        policy: { safetyTier: 'write', egress },
      })
      expect(source.health()).toEqual({ state: 'ready' })
      expect(await source.discover(new AbortController().signal)).toEqual(discovery)
      const trusted = await ready({ isolation, trustPolicy: true, tools: { Fail: { approval: 'always' } } })
      const policies = new Map(trusted.discovery.tools.map((tool) => [tool.nativeName, tool.policy]))
      expect(policies.get('Shout')).toMatchObject({ safetyTier: 'pure', replay: 'deterministic' })
      expect(policies.get('Fail')).toMatchObject({ approval: 'always' })
    })

    it('runs them with the input that their schema library parses', async () => {
      const { invoke } = await ready({ isolation })
      expect(await invoke('Shout', { text: 'hello' })).toBe('HELLO!')
    })

    it('passes them the whole context of a call', async () => {
      const reported: unknown[] = []
      const { invoke } = await ready({ isolation })
      const value = await invoke(
        'Context',
        { text: 'https://shelf.example/notes' },
        contextFor({
          progress: (...progress) => reported.push(progress),
          log: { ...SILENT_LOGGER, info: (...line: readonly unknown[]) => reported.push(line) },
          elicit: async () => ({ action: 'accept', content: { yes: true } }),
          fetch: async (url, init) => {
            const request = new Request(url, init)
            const text = `${request.method} ${request.url} ${request.headers.get('x-a')} ${await request.text()}`
            return new Response(text, { status: 201, headers: { 'x-reply': 'y' } })
          },
        }),
      )
      expect(value).toMatchObject({
        status: 201,
        body: 'POST https://shelf.example/notes b hello',
        header: 'y',
        pin: 'secret of pin',
        token: 'token of shelf',
        caller: ALICE.id,
        user: 'ann',
        key: 'key-0',
        other: false,
        asked: { action: 'accept', content: { yes: true } },
      })
      expect(reported).toContainEqual([1, 2, 'half'])
      expect(reported).toContainEqual([{ at: 'work' }, 'working'])
    })

    it('rule 9: the facts of a tool about its failure are kept, and nothing is added', async () => {
      const { invoke } = await ready({ isolation })
      expect(await failureOf(invoke('Fail', { text: 'say' }))).toMatchObject({
        code: 'tool_failed',
        message: 'The shelf is full.',
        canRetry: true,
        retryAfterMs: 5,
      })
      await expect(invoke('Fail', { text: 'otherwise' })).rejects.toThrow('no such way: otherwise')
      const gone = await failureOf(invoke('Nobody'))
      expect(gone).toMatchObject({ code: 'upstream_failed' })
    })

    it('rule 10: ends an aborted call', async () => {
      const { invoke } = await ready({ isolation })
      const abort = new AbortController()
      const waiting = invoke('Wait', {}, contextFor({ signal: abort.signal }))
      abort.abort()
      await expect(waiting).rejects.toThrow()
      expect(await invoke('Shout', { text: 'still there' })).toBe('STILL THERE!')
    })

    it('OWP-88: is refused if it needs a capability that was not granted', async () => {
      const folder = folderWith({
        'node_modules/shell/package.json': JSON.stringify({
          name: 'shell',
          version: '2.0.0',
          type: 'module',
          exports: './main.js',
          collet: { requires: ['subprocess', 'clock'] },
        }),
        'node_modules/shell/main.js': `globalThis.ran = true; export const a = ${toolText('Shell.Run@1.0.0')}`,
      })
      const source = open({ isolation, path: undefined, package: 'shell' }, folder)
      const refused = await failureOf(source.discover(new AbortController().signal))
      expect(refused.message).toContain('pack_runtime_requirement_unmet: the pack needs subprocess')
      expect(refused.message).toContain("grant: ['crypto', 'clock', 'subprocess']")
      expect('ran' in globalThis).toBe(false)
      expect(source.health()).toMatchObject({ state: 'down' })
      expect(
        await failureOf(source.invoke({ nativeName: 'Run', binding: {}, input: {}, context: contextFor() })),
      ).toMatchObject({
        code: 'upstream_failed',
      })
      const granted = await ready(
        { isolation, path: undefined, package: 'shell', grant: ['subprocess', 'clock'] },
        folder,
      )
      expect(granted.discovery).toMatchObject({ identity: { name: 'shell', version: '2.0.0' } })
      expect(await granted.invoke('Run')).toBe(1)
      Reflect.deleteProperty(globalThis, 'ran')
    })

    it('leaves out what it cannot serve, and reports it', async () => {
      const workflow = `{ ...${toolText('B.Flow@1.0.0')}, [Symbol.for('collet.workflow')]: true }`
      const folder = folderWith({
        'tools/index.mjs': `export const a = [${toolText('A.One@1.0.0')}, ${toolText('A.One@2.0.0', '() => 2')}, ${toolText('no id')}]
        export const b = ${toolText('B.Two@1.0.0')}
        export const c = { ...${toolText('B.Three@1.0.0')}, session: { open: () => 1 } }
        export const d = ${workflow}`,
      })
      const { discovery, invoke } = await ready({ isolation, path: 'tools' }, folder)
      expect(discovery.tools.map(({ nativeName }) => nativeName).sort()).toEqual(['A.One', 'B.Two'])
      expect(discovery.warnings.map((warning) => warning.split(' is left out')[0]).sort()).toEqual([
        'A.One@1.0.0',
        'B.Flow@1.0.0',
        'B.Three@1.0.0',
        'no id',
      ])
      expect(await invoke('A.One')).toBe(2)
    })

    it.each([
      [{ path: 'nowhere' }, {}, 'There is no pack at nowhere'],
      [{ path: undefined, package: 'nobody' }, {}, 'The package nobody is not installed'],
      [{ path: 'a.js' }, { 'a.js': 'export const' }, 'cannot be loaded'],
      [{ path: 'p' }, { 'p/pack.json': '{' }, 'cannot be read as a manifest'],
    ])('reports why there are no tools: %j', async (options, files, message) => {
      const source = open({ isolation, ...options }, folderWith(files))
      const failed = await failureOf(source.discover(new AbortController().signal))
      expect([failed.code, failed.message]).toEqual(['upstream_failed', expect.stringContaining(message)])
    })

    it('accepts no calls after it is closed', async () => {
      const { source, invoke } = await ready({ isolation })
      await source.close()
      await source.close()
      await expect(invoke('Shout', { text: 'late' })).rejects.toThrow()
    })
  },
)

const KEPT = BWRAP === undefined ? (['none'] as const) : (['none', 'required'] as const)

describe.each(KEPT)('a process of a pack, sandbox %s', { timeout: LIMIT_MS }, (sandbox) => {
  const isolation = 'process'
  const ready = (options: Options = {}, folder = HERE) =>
    opened({ ...options, ...(options.isolation === 'none' ? {} : { sandbox }) }, folder)
  const open = (options: Options = {}, folder = HERE) =>
    openSource({ ...options, ...(options.isolation === 'none' ? {} : { sandbox }) }, folder)

  it.each(['none', 'process'] as const)(
    'runs a call that arrives before the pack was read (isolation %s)',
    async (isolation) => {
      const folder = folderWith({ 'index.js': `export const one = ${toolText('Odd.One@1.0.0')}` })
      const source = open({ path: 'index.js', isolation }, folder)
      const call = { nativeName: 'One', binding: {}, input: {}, context: contextFor() }
      await expect(source.invoke(call)).resolves.toBe(1)
      const broken = open({ path: 'none.js', isolation }, folder)
      expect(await failureOf(broken.invoke(call))).toMatchObject({ code: 'upstream_failed', canRetry: true })
    },
    LIMIT_MS,
  )

  it('is killed if a tool loops, and restarted; its other calls have an unknown effect', async () => {
    const { invoke, source } = await ready({ isolation, killGraceMs: 100 })
    const abort = new AbortController()
    const beside = failureOf(invoke('Wait'))
    const started = Promise.withResolvers<void>()
    const context = contextFor({ signal: abort.signal, progress: () => started.resolve() })
    const looping = failureOf(invoke('Loop', {}, context))
    await started.promise
    abort.abort()
    const [first, second] = [await looping, await beside]
    for (const error of [first, second])
      expect(error).toMatchObject({ code: 'upstream_failed', canRetry: false })
    expect(second.message).toContain('The call may have taken effect')
    expect(second.developerMessage).toContain('Loop did not stop on request')
    expect(source.health().state).toBe('degraded')
    const early = await failureOf(invoke('Shout', { text: 'x' }))
    expect(early).toMatchObject({ canRetry: true })
    expect(early.retryAfterMs).toBeLessThanOrEqual(250)
    await expect
      .poll(() => invoke('Shout', { text: 'again' }).catch(() => ''), { timeout: 10_000 })
      .toBe('AGAIN!')
    expect(source.health()).toEqual({ state: 'ready' })
  })

  it('ends at once when its source is closed, even if a newer version of the pack has replaced it', async () => {
    const manifest = (version: string) =>
      JSON.stringify({
        name: 'old',
        version,
        runtime: { language: 'javascript', entry: 'index.js', requires: ['clock'] },
      })
    const folder = folderWith({
      'p/pack.json': manifest('1.0.0'),
      'p/index.js': `export const wait = ${toolText('Old.Wait@1.0.0', '(_, { progress }) => new Promise(() => { progress(1); setInterval(() => undefined, 1000) })')}`,
    })
    const { invoke, source } = await ready({ isolation, path: 'p' }, folder)
    const started = Promise.withResolvers<void>()
    const waiting = failureOf(invoke('Wait', {}, contextFor({ progress: () => started.resolve() })))
    await started.promise
    writeFileSync(join(folder, 'p/pack.json'), manifest('1.0.1'))
    await source.discover(new AbortController().signal)
    await source.close()
    expect(await waiting).toMatchObject({ code: 'upstream_failed', canRetry: false })
  })

  it('ends with a tool that exits or uses all memory, without affecting the server', async () => {
    const { invoke } = await ready({ isolation, memoryMb: 64 })
    expect((await failureOf(invoke('Fail', { text: 'exit' }))).developerMessage).toContain('exit code 3')
    await expect.poll(() => invoke('Shout', { text: 'a' }).catch(() => ''), { timeout: 10_000 }).toBe('A!')
    expect(await failureOf(invoke('Leak'))).toMatchObject({ code: 'upstream_failed', canRetry: false })
  })

  it('reads only granted files and sees only granted variables', async () => {
    const folder = folderWith({ 'secret.txt': 's3cr3t' })
    const file = join(folder, 'secret.txt')
    expect(existsSync(file)).toBe(true)
    const closed = await ready({ isolation })
    await expect(closed.invoke('Read', { text: file })).rejects.toThrow(/restricted|denied|no such file/i)
    const context = () => contextFor({ fetch: async () => new Response('') })
    // The sandbox sets this variable itself.
    const envOf = (value: unknown) =>
      typeof value === 'object' && value !== null && 'env' in value && Array.isArray(value.env)
        ? value.env.filter((name) => name !== 'PWD')
        : undefined
    expect(envOf(await closed.invoke('Context', { text: 'https://a.example' }, context()))).toEqual([])
    const grant = ['clock', 'fs.read', 'env.read'] as const
    const granted = await ready({ isolation, grant: [...grant], readable: [folder], env: ['TZ', 'NOT_SET'] })
    expect(await granted.invoke('Read', { text: file })).toBe('s3cr3t')
    await expect(granted.invoke('Read', { text: '/etc/hostname' })).rejects.toThrow(
      /restricted|denied|no such file/i,
    )
    expect(envOf(await granted.invoke('Context', { text: 'https://a.example' }, context()))).toEqual(['TZ'])
  })

  it('a single file cannot read the files beside it', async () => {
    const run = `() => import('node:fs').then(({ readFileSync }) => readFileSync(new URL('./key', import.meta.url), 'utf8'))`
    const folder = folderWith({
      'one.mjs': `export const a = ${toolText('A.Read@1.0.0', run)}`,
      key: 's3cr3t',
    })
    const { invoke } = await ready({ isolation, path: 'one.mjs' }, folder)
    await expect(invoke('Read')).rejects.toThrow(/restricted|denied|no such file/i)
    const open = await ready({ isolation: 'none', path: 'one.mjs' }, folder)
    expect(await open.invoke('Read')).toBe('s3cr3t')
  })

  it('accepts a limited number of concurrent calls', async () => {
    const { invoke } = await ready({ isolation, maxCalls: 1 })
    const abort = new AbortController()
    const waiting = failureOf(invoke('Wait', {}, contextFor({ signal: abort.signal }))).catch(() => undefined)
    expect(await failureOf(invoke('Shout', { text: 'x' }))).toMatchObject({ canRetry: true })
    abort.abort()
    await waiting
  })
})

describe('options of a pack', () => {
  it.each([
    [{}, 'either "package"'],
    [{ package: 'a', path: 'b' }, 'either "package"'],
    [{ path: 'a', writable: ['b'] }, 'needs grant: ["fs.write"]'],
    [{ path: 'a', grant: ['gpu'] }, 'grant'],
    [{ path: 'a', sandbox: 'required' }, 'needs isolation: "process"'],
  ])('refuses %j', (options, message) => {
    const parsed = PACK_OPTIONS.safeParse({ type: 'pack', ...options })
    expect(JSON.stringify(parsed.error?.issues ?? [])).toContain(message.replaceAll('"', '\\"'))
  })
})
