import { describe, expect, it } from 'vitest'
import { ADD, findingsOf } from '../../../test/samples/definitions.ts'
import { type PrepareOptions, prepareTool } from './prepare-tool.ts'

describe('the identity of a tool', () => {
  it('OTC-23, T-09: requires Toolkit.Name@x.y.z', () => {
    for (const id of [
      undefined,
      1,
      'Add',
      'A.B',
      'A.B@1',
      'A.B@1.0',
      'A.B@1.0.0-rc.1',
      'A B.C@1.0.0',
      'A.B@v1.0.0',
    ]) {
      expect(findingsOf({ id })).toEqual([expect.stringMatching(/^id: /)])
    }
    const result = prepareTool({ ...ADD, id: 'Mail.Send@v2.1.0' })
    expect(result.tool === undefined && result.findings[0]?.fix).toContain('"Mail.Send@2.1.0"')
  })

  it('OTC-25: a name has 1 to 64 characters of A-Za-z0-9_-', () => {
    for (const name of ['n'.repeat(64), 'A-B', '0_']) expect(findingsOf({ name })).toEqual([])
    for (const name of ['n'.repeat(65), '', 'A.B', 'A B', 5, 'ä', 'a\n']) {
      expect(findingsOf({ name })).toEqual([expect.stringMatching(/^name: /)])
    }
  })

  it('OTC-25: requires a name if the name derived from the id is too long', () => {
    const id = `${'T'.repeat(40)}.${'N'.repeat(40)}@1.0.0`
    expect(findingsOf({ id })).toEqual([
      'name: The name derived from the id has 81 characters; the maximum is 64.',
    ])
    expect(findingsOf({ id, name: 'short' })).toEqual([])
  })

  it('OTC-26: a description is a non-empty string', () => {
    for (const description of [undefined, '', '  ', 5]) {
      expect(findingsOf({ description })).toEqual([expect.stringMatching(/^description: /)])
    }
    expect(findingsOf({ title: '' })).toEqual([expect.stringMatching(/^title: /)])
  })

  it('OTC-27, OTC-28, T-11: a version repeats the version in the id', () => {
    expect(findingsOf({ version: '1.0.0' })).toEqual([])
    expect(findingsOf({ version: '1.0.1' })).toEqual(['version: Is "1.0.1", but the id says "1.0.0".'])
    for (const version of ['1.0', '1.0.0-rc.1', 'v1.0.0', 1]) {
      expect(findingsOf({ version })).toEqual([expect.stringMatching(/^version: /)])
    }
  })

  it.each<[NonNullable<PrepareOptions['source']>, string[], string[]]>([
    [
      'node-pack',
      ['openwop:core.http.request', 'openwop:a%20b'],
      ['core.http', 'openwop:', 'openwop:a b', 'mcp:a.b', 'openwop:a%2'],
    ],
    ['workflow', ['workflow:daily-report'], ['daily-report']],
    ['mcp', ['mcp:github.create_issue'], ['mcp:create', 'mcp:a/b.c']],
    ['connector', ['connector:slack.post'], ['slack.post']],
    [
      'host-extension',
      ['x-host-acme-shell', 'acme.edge:render'],
      ['x-host-Acme-shell', 'x-host-acme', 'edge:render'],
    ],
  ])('openwop §7.1: catalog ids of source %s', (source, good, bad) => {
    for (const catalogId of good) expect(findingsOf({ catalogId }, { source }), catalogId).toEqual([])
    for (const catalogId of [...bad, `openwop:${'x'.repeat(250)}`, 5]) {
      expect(findingsOf({ catalogId }, { source }), String(catalogId)).toEqual([
        expect.stringMatching(/^catalogId: /),
      ])
    }
  })

  it('openwop §7.1: only code has a catalog id by default', () => {
    expect(findingsOf({}, { source: 'mcp' })).toEqual(['catalogId: Is missing.'])
  })
})
