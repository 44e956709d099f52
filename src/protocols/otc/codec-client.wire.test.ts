import { describe, expect, it } from 'vitest'
import { apiKeyHeaderOf, CLIENT_DIALECTS, detectWire, PINNED_WIRES, versionHeaders } from './codec-client.ts'

const ARCADE = 'https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json'
const LONG = 'https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json'

describe('detectWire', () => {
  it.each([
    ['OTC/C-08: a bare array is a universal tool server', [], null, 'uts', undefined],
    ['OTC/C-08: a bare array stays uts even with a version header', [], '1.0', 'uts', undefined],
    [
      'OTC/C-02: a version header without $schema is the header dialect',
      { items: [] },
      '1.0',
      'oxp-header',
      undefined,
    ],
    [
      'OTC/C-17, OTC-14: $schema takes precedence over the header',
      { $schema: 'urn:oxp:1.0', items: [] },
      '1.0',
      'oxp-1.0',
      'urn:oxp:1.0',
    ],
    [
      'OTC/C-16, OTC-13: an otc id is repeated',
      { $schema: 'otc://1.0', tools: [] },
      null,
      'otc-1.0',
      'otc://1.0',
    ],
    ['OTC/C-16, OTC-12: the long form is repeated', { $schema: LONG, tools: [] }, null, 'otc-1.0', LONG],
    ['OTC/C-16: the ArcadeAI URL is repeated', { $schema: ARCADE, tools: [] }, null, 'rfc-call', ARCADE],
    ['OTC/C-16: without $schema in the list, none is sent', { tools: [] }, null, 'oxp-1.0', undefined],
  ] as const)('%s', (_title, list, header, dialect, schemaId) => {
    const wire = detectWire(list, header)
    expect(wire.dialect).toBe(dialect)
    expect(wire.schemaId).toBe(schemaId)
    expect(wire.paths).toEqual(['/tools/call', '/call', '/tools/execute', '/execute'])
  })
})

describe('PINNED_WIRES', () => {
  it.each(CLIENT_DIALECTS)('OTC/C-01: %s can fall back to every call path', (dialect) => {
    expect([...PINNED_WIRES[dialect].paths].sort()).toEqual([
      '/call',
      '/execute',
      '/tools/call',
      '/tools/execute',
    ])
  })

  it('OTC/C-01: starts at the path of the pinned draft', () => {
    expect(PINNED_WIRES['rfc-call'].paths[0]).toBe('/call')
    expect(PINNED_WIRES.execute.paths.slice(0, 2)).toEqual(['/tools/execute', '/execute'])
  })
})

describe('headers', () => {
  it('OTC-20, OTC-22: the version header is 1.0 and sent only in its dialect', () => {
    expect(versionHeaders('oxp-header')).toEqual({ 'OXP-Version': '1.0' })
    expect(versionHeaders('oxp-1.0')).toEqual({})
    expect(versionHeaders(undefined)).toEqual({})
  })

  it.each([
    [undefined, 'OXP-API-Key'],
    ['oxp-1.0', 'OXP-API-Key'],
    ['oxp-header', 'OXP-API-Key'],
    ['otc-1.0', 'OTC-API-Key'],
    ['rfc-call', 'X-API-Key'],
  ] as const)('OTC-99, OTC/C-25: the key header of %s is %s', (dialect, header) => {
    expect(apiKeyHeaderOf(dialect)).toBe(header)
  })
})
