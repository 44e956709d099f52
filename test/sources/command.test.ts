import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { z } from 'zod'
import { createCommandSource } from '#sources/command/index'
import { COMMAND_OPTIONS } from '#sources/command/options'
import { findConfinement } from '#sources/common/process'
import { invocationOf, servicesOf, toolIn } from './sample-invocation.ts'

type Commands = z.input<typeof COMMAND_OPTIONS>['commands']
type Options = Partial<z.input<typeof COMMAND_OPTIONS>>

const NODE = process.execPath
const WORD = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] } as const

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'collet-command-'))
  folders.push(folder)
  return folder
}

/** A source with these commands; without a sandbox unless the test is about it. */
function open(commands: Commands, options: Options = {}, environment = process.env) {
  const folder = makeFolder()
  const parsed = COMMAND_OPTIONS.parse({ type: 'command', isolation: 'none', commands, ...options })
  const source = createCommandSource('Ops', parsed, servicesOf({ folder, environment }))
  onTestFinished(() => source.close())
  return { source, folder }
}

/** One command, run once. */
async function run(
  command: Commands[string],
  input: Parameters<typeof invocationOf>[2] = {},
  given: Parameters<typeof invocationOf>[3] = {},
  options: Options = {},
) {
  const { source } = open({ it: command }, options)
  const discovery = await source.discover(new AbortController().signal)
  return await source.invoke(invocationOf(discovery, 'it', input, given))
}

const script = (code: string, ...rest: readonly string[]): string[] => [NODE, '-e', code, ...rest]

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    // A zombie, which its parent has not collected yet, is dead too.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

describe('commands as tools', () => {
  it('OWP-31, OWP-35, OWP-37, OWP-86: tier exec, approval always, host-owned, with a vendor for the id', async () => {
    const { source } = open(
      { 'disk-usage': { argv: ['df', '-h'], description: 'Free space.' } },
      { vendor: 'acme' },
    )
    expect([source.type, source.kind]).toEqual(['command', 'host-extension'])
    const discovery = await source.discover(new AbortController().signal)
    const tool = toolIn(discovery, 'disk-usage')
    expect(tool.policy).toMatchObject({ safetyTier: 'exec', approval: 'always', egress: 'host-owned' })
    expect(source.vendor).toBe('acme')
    expect(tool.binding.program).toMatch(/^\/.*\/df$/)
    expect(source.health()).toEqual({ state: 'ready' })
  })

  it('OWP-87: the operator may override the approval, but not the tier', async () => {
    const { source } = open(
      { now: { argv: ['date'], description: 'Now.' } },
      { policy: { approval: 'never' } },
    )
    const { tools } = await source.discover(new AbortController().signal)
    expect(tools[0]?.policy).toMatchObject({ safetyTier: 'exec', approval: 'never' })
  })

  it('OWP-87: no shell sees a parameter', async () => {
    const word = '$(touch /tmp/x); `id` && "quoted" > file | cat *'
    expect(
      await run({ argv: ['printf', '%s', '{word}'], description: 'Says it.', input: WORD }, { word }),
    ).toBe(word)
  })

  it('OWP-87: an operand that looks like an option is refused by the schema and again before the run', async () => {
    const { source } = open({ show: { argv: ['cat', '{word}'], description: 'Shows.', input: WORD } })
    const discovery = await source.discover(new AbortController().signal)
    const { properties } = toolIn(discovery, 'show').inputSchema
    expect(properties).toEqual({
      word: { type: 'string', pattern: '^(?:[^-]|$)', description: 'Must not begin with "-".' },
    })
    await expect(source.invoke(invocationOf(discovery, 'show', { word: '--version' }))).rejects.toThrow(
      'word must not begin with "-"',
    )
  })

  it('writes the input as JSON, or one parameter as text, to standard input', async () => {
    const cat = { argv: ['cat'], description: 'Copies.', input: WORD }
    expect(await run({ ...cat, stdin: 'json', output: 'json' }, { word: 'ü' })).toEqual({ word: 'ü' })
    expect(await run({ ...cat, stdin: '{word}' }, { word: 'line\n\n' })).toBe('line\n')
  })

  it('a command that does not read its input does not fail', async () => {
    const command: Commands[string] = {
      argv: ['true'],
      description: 'Nothing.',
      input: WORD,
      stdin: 'json',
      output: 'none',
    }
    expect(await run(command, { word: 'x'.repeat(1_000_000) })).toBeUndefined()
  })

  it('reads JSON if the output schema is not a string', async () => {
    const argv = script('console.log(JSON.stringify({ n: 1 }))')
    const outputSchema = { type: 'object', properties: { n: { type: 'integer' } } }
    expect(await run({ argv, description: 'Counts.', outputSchema })).toEqual({ n: 1 })
    await expect(run({ argv: ['echo', 'no json'], description: 'x', outputSchema })).rejects.toMatchObject({
      code: 'output_invalid',
    })
    await expect(run({ argv: ['printf', '\\377'], description: 'x' })).rejects.toMatchObject({
      code: 'output_invalid',
    })
  })

  it('passes on only harmless or named variables of its own environment', async () => {
    const environment = { ...process.env, TZ: 'UTC', CANARY_TOKEN: 'canary', SHARED: 'shared' }
    const command: Commands[string] = {
      argv: script('console.log(JSON.stringify(process.env))'),
      description: 'Shows variables.',
      output: 'json',
      env: { OWN: 'own' },
      inheritEnv: ['SHARED', 'ABSENT'],
      secretEnv: { PASSWORD: 'db' },
      tokenEnv: { GH_TOKEN: { id: 'github', scopes: ['repo'] } },
    }
    const { source } = open({ it: command }, {}, environment)
    const discovery = await source.discover(new AbortController().signal)
    expect(toolIn(discovery, 'it').requirements).toEqual({
      authorization: [{ id: 'github', oauth2: { scopes: ['repo'] } }],
      secrets: [{ id: 'db' }],
    })
    expect(JSON.stringify(toolIn(discovery, 'it').binding)).not.toContain('"own"')
    const given = { secrets: { db: 'pass' }, tokens: { github: 'token' }, effectKey: 'key-of-this-effect' }
    const seen = await source.invoke(invocationOf(discovery, 'it', {}, given))
    const { PATH, LANG, LC_ALL, LC_CTYPE, ...others } = Object(seen)
    expect(PATH).toBe(process.env.PATH)
    expect(others).toEqual({
      ...{ TZ: 'UTC', OWN: 'own', SHARED: 'shared', PASSWORD: 'pass', GH_TOKEN: 'token' },
      // Rule 27.
      COLLET_EFFECT_KEY: 'key-of-this-effect',
    })
  })

  it('reports the exit code and standard error, without values of its options', async () => {
    const code = 'console.error("\\u001b[31mno such thing\\u001b[0m", process.env.OWN); process.exit(3)'
    const failing = { argv: script(code), description: 'Fails.', env: { OWN: 'canary-secret' } }
    await expect(run(failing)).rejects.toMatchObject({
      code: 'tool_failed',
      canRetry: false,
      message: 'The command it ended with exit code 3: no such thing [redacted]',
    })
    expect(await run({ ...failing, okExitCodes: [0, 3] })).toBe('')
  })

  it('rule 9: a failure can be retried only with an exit code that means no effect', async () => {
    const argv = script('process.exit(75)')
    await expect(run({ argv, description: 'x' })).rejects.toMatchObject({ canRetry: false })
    await expect(run({ argv, description: 'x', retryExitCodes: [75] })).rejects.toMatchObject({
      canRetry: true,
    })
  })

  it('ends a command that writes too much', async () => {
    const command = { argv: ['yes'], description: 'Never stops.', maxOutputBytes: 10_000 }
    await expect(run(command)).rejects.toMatchObject({ code: 'result_too_large' })
  })

  it('ends a command that uses too much processor time', async () => {
    const command = { argv: script('for (;;);'), description: 'Loops.', cpuSeconds: 1 }
    await expect(run(command)).rejects.toThrow('used more than the allowed 1 s of processor time')
  }, 20_000)

  it('ends a command that uses too much memory', async () => {
    const argv = ['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=512M', 'count=1']
    const copy = { argv, description: 'Copies.' }
    await expect(run({ ...copy, memoryMb: 64 })).rejects.toThrow('memory exhausted')
    expect(await run({ ...copy, memoryMb: 4_096 })).toBe('')
  }, 20_000)

  it('rule 10: a cancellation ends the whole process group, including processes that ignore signals', async () => {
    const folder = makeFolder()
    const pids = join(folder, 'pids')
    const child = 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000)'
    const parent = `
      const { spawn } = require('node:child_process')
      const child = spawn(process.execPath, ['-e', ${JSON.stringify(child)}], { stdio: 'inherit' })
      process.on('SIGTERM', () => {})
      require('node:fs').writeFileSync(${JSON.stringify(pids)}, [process.pid, child.pid].join(' '))
      setInterval(() => {}, 1000)`
    const { source } = open({ it: { argv: script(parent), description: 'Stays.' } }, { killGraceMs: 100 })
    const discovery = await source.discover(new AbortController().signal)
    const ending = new AbortController()
    const running = source.invoke(invocationOf(discovery, 'it', {}, { signal: ending.signal }))
    const settled = expect(running).rejects.toThrow('enough')
    const group = await vi.waitFor(() => {
      const found = readFileSync(pids, 'utf8').split(' ').map(Number)
      expect(found).toHaveLength(2)
      return found
    }, 10_000)
    ending.abort(new Error('enough'))
    await settled
    await vi.waitFor(() => expect(group.map(isAlive)).toEqual([false, false]), 5_000)
  }, 30_000)

  it.each([
    ['["[".repeat(5000), "]".repeat(5000)].join("")', 'is nested deeper than 256 levels'],
    ['JSON.stringify(Array(150000).fill(1))', 'contains more than 100000 values'],
  ])('checks the bounds of JSON before it is parsed: %s', async (text, message) => {
    const code = `process.stdout.write(${text})`
    await expect(run({ argv: script(code), description: 'Much.', output: 'json' })).rejects.toMatchObject({
      code: 'result_too_large',
      message: expect.stringContaining(message),
    })
  })

  it('leaves no process behind when a command ends by itself', async () => {
    const code = `
      const child = require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
      child.unref()
      console.log(child.pid)`
    const pid = Number(await run({ argv: script(code), description: 'Forks.' }))
    await vi.waitFor(() => expect(isAlive(pid)).toBe(false), 5_000)
  })

  it('does not wait for a process that left the group and keeps the pipe open', async () => {
    const code = `
      const child = require('node:child_process').spawn('sleep', ['600'], { stdio: 'inherit', detached: true })
      child.unref()
      console.log(child.pid)`
    const pid = Number(await run({ argv: script(code), description: 'Forks away.' }))
    onTestFinished(() => void process.kill(pid))
    // The answer arrived while the pipe was still open.
    expect(isAlive(pid)).toBe(true)
  })

  it('closing ends running commands, and their number is limited', async () => {
    const { source } = open(
      { it: { argv: ['sleep', '60'], description: 'Sleeps.' } },
      { maxProcesses: 1, killGraceMs: 0 },
    )
    const discovery = await source.discover(new AbortController().signal)
    const running = source.invoke(invocationOf(discovery, 'it'))
    const settled = expect(running).rejects.toMatchObject({ code: 'cancelled' })
    await expect(source.invoke(invocationOf(discovery, 'it'))).rejects.toMatchObject({ canRetry: true })
    await source.close()
    await settled
  })

  it('rule 32: a call runs the accepted definition, not the current options', async () => {
    const accepted = open({ it: { argv: ['echo', 'accepted'], description: 'x' } })
    const changed = open({ it: { argv: ['echo', 'changed'], description: 'x' } })
    const discovery = await accepted.source.discover(new AbortController().signal)
    expect(await changed.source.invoke(invocationOf(discovery, 'it'))).toBe('accepted')
    const { nativeName, context } = invocationOf(discovery, 'it')
    await expect(
      changed.source.invoke({ nativeName, context, input: {}, binding: {} }),
    ).rejects.toMatchObject({
      code: 'upstream_failed',
    })
  })

  it('a command without its program is left out, and the state of the source explains why', async () => {
    const { source } = open(
      {
        gone: { argv: ['no-such-program-here'], description: 'x' },
        now: { argv: ['date'], description: 'x' },
        hidden: { argv: ['date'], description: 'x' },
      },
      { exclude: ['hid*'] },
    )
    const { tools, warnings } = await source.discover(new AbortController().signal)
    expect(tools.map(({ nativeName }) => nativeName)).toEqual(['now'])
    expect(warnings).toEqual([
      'gone is left out: the program no-such-program-here does not exist or is not executable.',
    ])
    expect(source.health()).toEqual({ state: 'degraded', reason: warnings[0] })
  })

  it('runs in its working folder, relative to the configuration', async () => {
    const { source, folder } = open({ it: { argv: ['pwd'], description: 'x', cwd: '.' } })
    const discovery = await source.discover(new AbortController().signal)
    expect(await source.invoke(invocationOf(discovery, 'it'))).toBe(folder)
  })
})

const confinement = await findConfinement(process.env.PATH ?? '')

describe('isolation', () => {
  const bare = { PATH: '/nowhere' }
  const now = { it: { argv: ['/bin/date'], description: 'x' } }

  it('OWP-87: reports clearly that there is none', async () => {
    const { source } = open(now, { isolation: 'auto' }, bare)
    const { warnings } = await source.discover(new AbortController().signal)
    expect(warnings[0]).toContain('Commands run without isolation, with all rights of this server')
    expect(source.health()).toMatchObject({ state: 'degraded', reason: warnings[0] })
  })

  it('runs nothing where it is required and missing', async () => {
    const { source } = open(now, { isolation: 'required' }, bare)
    const discovery = await source.discover(new AbortController().signal)
    expect(source.health().state).toBe('down')
    await expect(source.invoke(invocationOf(discovery, 'it'))).rejects.toMatchObject({
      code: 'upstream_failed',
      developerMessage: expect.stringContaining('isolation is required'),
    })
  })

  it('leaves out commands whose limits cannot be enforced', async () => {
    const { source } = open({ it: { ...now.it, cpuSeconds: 1 } }, {}, bare)
    const { tools, warnings } = await source.discover(new AbortController().signal)
    expect([tools, warnings]).toEqual([[], [expect.stringContaining('prlimit')]])
  })

  it('a bwrap that does not work counts as missing', async () => {
    const folder = makeFolder()
    writeFileSync(join(folder, 'bwrap'), '#!/bin/false\n', { mode: 0o755 })
    expect(await findConfinement(folder)).toMatchObject({
      bwrap: undefined,
      unavailableReason: 'bubblewrap (bwrap) cannot create namespaces here',
    })
  })

  describe.skipIf(confinement.bwrap === undefined)('with bubblewrap', () => {
    const inside = async (code: string, more: Partial<Commands[string]> = {}) => {
      const { source, folder } = open(
        { it: { argv: script(code), description: 'x', ...more } },
        { isolation: 'required' },
      )
      writeFileSync(join(folder, 'there'), 'text')
      const discovery = await source.discover(new AbortController().signal)
      expect(source.health()).toEqual({ state: 'ready' })
      return { folder, value: await source.invoke(invocationOf(discovery, 'it')) }
    }

    it('cannot write outside its own temporary folder', async () => {
      const { value } = await inside(`
        const fs = require('node:fs')
        fs.writeFileSync('/tmp/mine', 'x')
        const tried = ['/etc/x', './there'].map((file) => { try { fs.writeFileSync(file, 'x'); return 'written' } catch (e) { return e.code } })
        console.log(tried.join(' '), fs.readFileSync('there', 'utf8'))`)
      expect(value).toBe('EROFS EROFS text')
    })

    it('can write to allowed folders', async () => {
      const { folder, value } = await inside(`require('node:fs').writeFileSync('there', 'new')`, {
        writable: ['.'],
      })
      expect(value).toBe('')
      expect(readFileSync(join(folder, 'there'), 'utf8')).toBe('new')
    })

    it('has no network unless allowed, and sees no process but its own', async () => {
      const code = `
        const count = Object.values(require('node:os').networkInterfaces()).flat().filter(({ internal }) => !internal).length
        console.log(count, process.ppid <= 2)`
      expect((await inside(code)).value).toBe('0 true')
    })

    it('is ended by its limits and by signals', async () => {
      await expect(inside('for (;;);', { cpuSeconds: 1 })).rejects.toThrow('processor time')
    }, 20_000)
  })

  it.skipIf(confinement.bwrap === undefined)('hides the folder of keys', async () => {
    const { source, folder } = open(
      { it: { argv: ['cat', 'secret/key'], description: 'x' } },
      { isolation: 'required', hide: ['secret', 'absent'] },
    )
    const { mkdirSync } = await import('node:fs')
    mkdirSync(join(folder, 'secret'))
    writeFileSync(join(folder, 'secret', 'key'), 'canary')
    const discovery = await source.discover(new AbortController().signal)
    await expect(source.invoke(invocationOf(discovery, 'it'))).rejects.toThrow('No such file')
  })
})
