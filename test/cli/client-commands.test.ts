import { describe, expect, it } from 'vitest'
import type { Services } from '#cli/io'
import { CallFailure, type FailureClass, type RemoteTool, type RequirementResolvers } from '#client/index'
import { indexTools } from '#client/tool-directory'
import { readEnvironment } from '#config/environment'
import type { JsonObject } from '#kernel/base/json'
import { chunks, FakeIo } from './fake-io.ts'

type Client = Awaited<ReturnType<Services['connect']>>

interface Seen {
  url?: string
  apiKey?: string | undefined
  tool?: unknown
  input?: JsonObject | undefined
  callId?: string | undefined
  userId?: string | undefined
  requirements?: RequirementResolvers | undefined
}

const LISTED: RemoteTool = {
  id: 'T.A@1.0.0',
  name: 'T_A',
  description: 'Adds.',
  input: {},
  output: 'any',
  requirements: { authorization: [], secrets: [], userId: false },
}

/** A server that answers each call the same way. */
function clientOf(answer: Partial<Client>, seen: Seen = {}): Partial<Services> {
  return {
    connect: async (url, { apiKey, requirements }) => {
      Object.assign(seen, { url, apiKey, requirements })
      return {
        list: async () => [LISTED],
        search: async () => ({ found: [LISTED], families: [] }),
        get: async (name) => indexTools([LISTED])(name),
        tryCall: async (tool, input, options) => {
          Object.assign(seen, { tool, input, callId: options?.callId, userId: options?.userId })
          return { ok: true, value: { sum: 3 }, callId: 'made-here', toolId: 'T.A@1.0.0', retries: 0 }
        },
        ...answer,
      }
    },
  }
}

function failing(failure: CallFailure): Partial<Services> {
  return clientOf({ tryCall: async () => ({ ok: false, error: failure }) })
}

describe('collet call', () => {
  it('prints the value on stdout and the call id on stderr', async () => {
    const seen: Seen = {}
    const io = new FakeIo(clientOf({}, seen))
    expect(
      await io.run('call', 'T.A', '{"a":1}', '--url', 'http://h:1/', '--key', 'k', '--call-id', 'mine'),
    ).toBe(0)
    expect(JSON.parse(io.stdout)).toEqual({ sum: 3 })
    expect(io.stderr).toBe('Call id made-here\n')
    expect(seen).toMatchObject({
      url: 'http://h:1',
      apiKey: 'k',
      tool: 'T.A',
      input: { a: 1 },
      callId: 'mine',
    })
  })

  it('reads the input from stdin, and server and key from the environment', async () => {
    const seen: Seen = {}
    const environment = readEnvironment({ COLLET_URL: 'http://env:2', COLLET_API_KEY: 'from-env' })
    const io = new FakeIo(clientOf({}, seen), { stdin: chunks('{"a"', ':2}'), environment })
    expect(await io.run('call', 'T.A', '-', '--json')).toBe(0)
    expect(JSON.parse(io.stdout)).toEqual({ ok: true, value: { sum: 3 }, call_id: 'made-here' })
    expect(seen).toMatchObject({ url: 'http://env:2', apiKey: 'from-env', input: { a: 2 } })
  })

  it.each([
    ['{', 'The input is not JSON'],
    ['[1]', 'must be a JSON object'],
    ['null', 'must be a JSON object'],
  ])('refuses the input %s before anything is sent', async (input, message) => {
    const io = new FakeIo()
    expect(await io.run('call', 'T.A', input)).toBe(2)
    expect(io.stderr).toContain(message)
  })

  it.each<[FailureClass, number]>([
    ['tool', 1],
    ['validation', 2],
    ['requirements', 2],
    ['config', 2],
    ['server', 3],
    ['unauthenticated', 3],
    ['authorization_required', 3],
    ['approval_required', 3],
    ['transport', 3],
  ])('ends a failure of class %s with exit code %i', async (kind, code) => {
    const io = new FakeIo(failing(new CallFailure(kind, 'It went wrong.', { callId: 'c-1' })))
    expect(await io.run('call', 'T.A')).toBe(code)
    expect(io.stdout).toBe('')
    expect(io.stderr).toContain('✗ It went wrong.')
    expect(io.stderr).toContain('Call id c-1')
  })

  it.each(['T.B', 'T.A@2', 'T.A@1.0.1', 'nonsense'])(
    'reports %s, which the server does not offer, as a usage error',
    async (tool) => {
      const io = new FakeIo(failing(new CallFailure('server', 'Refused.', { status: 400 })))
      expect(await io.run('call', tool)).toBe(2)
    },
  )

  it.each(['T.A', 'T.A@1', 'T.A@01.0.0'])(
    'reports a refusal of %s, which the server offers, as an error of the server',
    async (tool) => {
      const io = new FakeIo(failing(new CallFailure('server', 'Refused.', { status: 400 })))
      expect(await io.run('call', tool)).toBe(3)
    },
  )

  it('sends secrets, tokens and the user', async () => {
    const seen: Seen = {}
    const io = new FakeIo(clientOf({}, seen), { stdin: chunks('from-stdin\n') })
    const argv = ['--secret', 'A=a=1', '--secret', 'B=-', '--token', 'google=t', '--user', 'u1']
    expect(await io.run('call', 'T.A', '{}', ...argv)).toBe(0)
    expect(seen.userId).toBe('u1')
    expect(['A', 'B', 'C'].map((id) => seen.requirements?.secrets?.(id, LISTED))).toEqual([
      'a=1',
      'from-stdin',
      undefined,
    ])
    const google = { id: 'google', scopes: [], definition: {} }
    expect(seen.requirements?.authorization?.('google', google, LISTED)).toBe('t')
  })

  it.each([
    [['--secret', 'hunter2'], '--secret expects ID=VALUE'],
    [['--token', 'id='], '--token expects ID=VALUE'],
    [['--secret', 'A=-', '--token', 'b=-'], 'Only one of'],
    [['-', '--secret', 'A=-'], 'Only one of'],
  ])('refuses %j without repeating what may be a secret', async (argv, message) => {
    const io = new FakeIo()
    expect(await io.run('call', 'T.A', ...argv)).toBe(2)
    expect(io.stderr).toContain(message)
    expect(io.stderr).not.toContain('hunter2')
  })

  it('shows what to change, and escapes control characters of the server', async () => {
    const failure = new CallFailure('validation', 'Bad\u001b[2J input', {
      parameterErrors: { b: 'Must be a number' },
    })
    const io = new FakeIo(failing(failure))
    await io.run('call', 'T.A')
    expect(io.stderr).toContain('b: Must be a number')
    expect(io.stderr).not.toContain('\u001b')
  })

  it('prints failures as JSON with --json', async () => {
    const io = new FakeIo(failing(new CallFailure('tool', 'No.', { developerMessage: 'inside' })))
    expect(await io.run('call', 'T.A', '--json')).toBe(1)
    expect(JSON.parse(io.stdout)).toMatchObject({ ok: false, error: { class: 'tool', message: 'No.' } })
    expect(io.stderr).toBe('')
  })

  it('names the address it cannot use', async () => {
    const io = new FakeIo()
    expect(await io.run('call', 'T.A', '--url', 'ftp://x')).toBe(2)
    expect(io.stderr).toContain('--url expects an http or https address')
  })
})

describe('collet tools --url', () => {
  const hasNoRoutes = { fetch: async () => new Response('', { status: 404 }) }

  it('lists the tools of a server of another vendor, which sends no policies', async () => {
    const io = new FakeIo({ ...clientOf({}), ...hasNoRoutes })
    expect(await io.run('tools', '--url', 'http://h:1')).toBe(0)
    expect(io.stdout.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
      ['TOOL', 'SOURCE', 'TIER', 'APPROVAL', 'NEEDS', 'DESCRIPTION'],
      ['T.A@1.0.0', '-', '-', '-', '-', 'Adds.'],
      [''],
    ])
  })

  it('reports that no server answers', async () => {
    const fetch = async () => {
      throw new TypeError('fetch failed')
    }
    const io = new FakeIo({ ...clientOf({}), fetch })
    expect(await io.run('tools', '--url', 'http://h:1')).toBe(3)
    expect(io.stderr).toContain('Is the server running?')
  })
})
