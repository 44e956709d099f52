import { describe, expect, it } from 'vitest'
import { parseToml, renderTomlTable } from './toml.ts'

const CODEX = `# mine
model = "gpt-5" # the best
"odd key" = 'C:\\temp'

[mcp_servers.files] # local
command = "npx"
args = [
  "-y", # no question
  'a "b"',
]
env = { TOKEN = "t\\u0041", "X-Y" = "2" }
enabled = true
startup_timeout_sec = 1_000
tool.timeout = 2.5

[mcp_servers."git hub".env]
TOKEN = """
one \\
   two"""
RAW = '''
[not.a.table]
'''

[[profiles]]
since = 2026-01-31
[[profiles]]
since = 2026-01-31 10:00:00Z
`

const plain = (text: string) => JSON.parse(JSON.stringify(parseToml(text)?.root ?? null))

describe('TOML', () => {
  it('is parsed with every kind of value', () => {
    expect(plain(CODEX)).toEqual({
      model: 'gpt-5',
      'odd key': 'C:\\temp',
      mcp_servers: {
        files: {
          command: 'npx',
          args: ['-y', 'a "b"'],
          env: { TOKEN: 'tA', 'X-Y': '2' },
          enabled: true,
          startup_timeout_sec: 1000,
          tool: { timeout: 2.5 },
        },
        'git hub': { env: { TOKEN: 'one two', RAW: '[not.a.table]\n' } },
      },
      profiles: [{ since: '2026-01-31' }, { since: '2026-01-31 10:00:00Z' }],
    })
    expect(plain('\uFEFFa = 1\r\n[b]\r\nc = 0xff\r\n')).toEqual({ a: 1, b: { c: 255 } })
    expect(plain('[__proto__]\npolluted = true\n')).toEqual(JSON.parse('{"__proto__":{"polluted":true}}'))
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false)
  })

  it('has the start and end of each table, without the comments of the next table', () => {
    const tables = parseToml('[a]\nb = 1 # one\n\n# about c\n[c]\nd = 2\n')?.tables ?? []
    expect(tables.map(({ path, start, end }) => [path, start, end])).toEqual([
      [['a'], 0, 16],
      [['c'], 27, 37],
    ])
  })

  it.each([
    'a',
    'a = ',
    'a = 1 2',
    '[a',
    'a = "b',
    'a = 1\na = 2',
    'a = [1 2]',
    'a = nothing',
    'a = "\\q"',
    '[a]\n[a]',
    'a = {}\n[a.b]',
  ])('rejects %j', (text) => expect(parseToml(text)).toBeUndefined())

  it('is parsed in bounded time if it is deep or long', () => {
    expect(parseToml(`a = ${'['.repeat(100_000)}`)).toBeUndefined()
    expect(parseToml(`a = """${'\\"'.repeat(100_000)}`)).toBeUndefined()
  })

  it('is written in a form that parses to the same value', () => {
    const table = { url: 'http://127.0.0.1:4100/mcp', args: ['a "b"', '\u0001'], env: { 'X Y': 'z' } }
    const text = renderTomlTable(['mcp_servers', 'my server'], table)
    expect(text).toContain('[mcp_servers."my server"]\nurl = "http://127.0.0.1:4100/mcp"\n')
    expect(plain(text)).toEqual({ mcp_servers: { 'my server': table } })
  })
})
