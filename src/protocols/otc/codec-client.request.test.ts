import { describe, expect, it } from 'vitest'
import { buildCallBody, type CallPath, CLIENT_DIALECTS, PINNED_WIRES } from './codec-client.ts'

const CALL = { toolId: 'Calculator.Add@1.0.0', callId: 'x', input: { a: 1 } }
const PATHS: readonly CallPath[] = ['/tools/call', '/call', '/tools/execute', '/execute']

describe('buildCallBody', () => {
  it('OTC/C-02: is bare in the header dialect and wrapped in the others', () => {
    expect(buildCallBody(PINNED_WIRES['oxp-header'], '/tools/call', CALL)).toEqual({
      tool_id: 'Calculator.Add@1.0.0',
      call_id: 'x',
      input: { a: 1 },
    })
    expect(buildCallBody(PINNED_WIRES['oxp-1.0'], '/tools/call', CALL)).toEqual({
      $schema: 'urn:oxp:1.0',
      request: { tool_id: 'Calculator.Add@1.0.0', call_id: 'x', input: { a: 1 } },
    })
  })

  it('OTC/C-16: leaves out $schema if the server sent none', () => {
    expect(buildCallBody(PINNED_WIRES.uts, '/tools/call', CALL)).not.toHaveProperty('$schema')
  })

  it('OTC/C-04: the execute paths name the id execution_id and are always wrapped', () => {
    const body = buildCallBody(PINNED_WIRES['oxp-header'], '/execute', CALL)
    expect(body).toEqual({ request: { tool_id: 'Calculator.Add@1.0.0', execution_id: 'x', input: { a: 1 } } })
  })

  it('OTC-57, OTC/C-05, OTC/C-06: has only known members, and always an id and input', () => {
    const known = ['call_id', 'context', 'execution_id', 'input', 'tool_id', 'trace_id']
    for (const dialect of CLIENT_DIALECTS) {
      for (const path of PATHS) {
        const context = { authorization: [{ id: 'g', token: 't' }], userId: 'u' }
        const body = buildCallBody(PINNED_WIRES[dialect], path, { ...CALL, traceId: 't', context })
        const request = Object.keys(body.request ?? body)
        expect(request.filter((name) => !known.includes(name))).toEqual([])
        expect(request).toEqual(expect.arrayContaining(['tool_id', 'input', 'trace_id', 'context']))
      }
    }
  })

  it('OTC/C-26: context has arrays and no empty members', () => {
    const context = { authorization: [{ id: 'g', token: 't' }], secrets: [], userId: 'u' }
    expect(buildCallBody(PINNED_WIRES['oxp-header'], '/tools/call', { ...CALL, context }).context).toEqual({
      authorization: [{ id: 'g', token: 't' }],
      user_id: 'u',
    })
  })
})
