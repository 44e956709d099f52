import { describe, expect, it } from 'vitest'
import { EMPTY_FORM } from './key-form.ts'
import { isPicked, toggleTool, viewOf } from './key-tools.ts'

const READ = {
  ...{ id: 'fs.read', version: '1.0.0', name: 'fs_read', catalog_id: 'mcp:fs.read', description: 'Reads.' },
  ...{ source: 'fs', kind: 'mcp', tier: 'read', needs: [0], toolsets: ['files'] },
}
const ADD = {
  ...{ id: 'Calc.Add', version: '1.0.0', name: 'Calc_Add', catalog_id: 'openwop:Calc.Add' },
  ...{
    description: 'Adds.',
    tenants: ['default'],
    source: 'Calc',
    kind: 'node-pack',
    tier: 'pure',
    tags: ['sums'],
  },
}
const LISTING = {
  tools: [READ, ADD],
  requirements: [{ kind: 'scope' as const, id: 'tools:fs:read', scopes: [], state: 'missing' as const }],
}
const MISSING = [{ tool: 'fs.read', scope: 'tools:fs:read' }]

describe('the tools that a new key will see', () => {
  it.each([
    ['no names', {}, { seen: 1, missing: [] }],
    ['no names, all scopes', { scopes: '*' }, { seen: 2, missing: [] }],
    ['a tool whose scope it lacks', { tools: 'mcp:fs.read' }, { seen: 0, missing: MISSING }],
    ['the scope too', { tools: 'mcp:fs.read', scopes: 'tools:*' }, { seen: 1, missing: [] }],
    ['a tool of another tenant', { tools: 'Calc.*', tenant: 'acme' }, { seen: 0, missing: [] }],
    ['a pattern', { tools: 'Calc.*' }, { seen: 1, missing: [] }],
    [
      'a pattern with characters of regular expressions',
      { tools: 'Calc?Add C.lc.*' },
      { seen: 0, missing: [] },
    ],
    ['an unknown version', { tools: 'Calc.Add@2.0.0' }, { seen: 0, missing: [] }],
    ['a source and a tag', { tools: 'source:fs tag:sums' }, { seen: 1, missing: MISSING }],
    ['a toolset', { toolsets: ['files'] }, { seen: 0, missing: MISSING }],
    ['a toolset and a tool', { toolsets: ['files'], tools: 'Calc_Add' }, { seen: 1, missing: MISSING }],
  ])('%s', (_, patch, view) => {
    expect(viewOf(LISTING, { ...EMPTY_FORM, ...patch })).toEqual(view)
  })

  it('are unknown if a role adds scopes', () => {
    expect(viewOf(LISTING, { ...EMPTY_FORM, roles: 'writer' })).toBeUndefined()
  })
})

it('adds a tool by its catalog id, and removes it by any of its names', () => {
  expect(toggleTool('', READ)).toBe('mcp:fs.read')
  expect(toggleTool('Mail.*', READ)).toBe('Mail.* mcp:fs.read')
  expect(toggleTool('Mail.* fs.read', READ)).toBe('Mail.*')
  expect([isPicked('fs_read', READ), isPicked('fs.*', READ)]).toEqual([true, false])
})
