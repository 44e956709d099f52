import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Catalog, ToolIndex } from '#kernel/tool/catalog'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { ToolTables } from './tool-tables.ts'

describe('names of tools', () => {
  it('MCP-50, MCP-42: every tool has one name that all clients accept, and the names are sorted', () => {
    const wanted = fc.oneof(
      fc.constantFrom('same', 'a.b', 'a_b', 'x'.repeat(70)),
      fc.string({ minLength: 1 }),
    )
    fc.assert(
      fc.property(fc.array(wanted, { maxLength: 8 }), (names) => {
        const tools = names.map((name, index) => ({
          ...sampleTool(`Kit.Tool${index}@1.0.0`, () => null),
          name,
        }))
        const table = new ToolTables().of(new Catalog(new ToolIndex(tools)))
        const given = [...table.keys()]
        expect(new Set([...table.values()].map(({ tool }) => tool.id)).size).toBe(tools.length)
        expect(given.every((name) => /^[A-Za-z0-9_-]{1,64}$/.test(name))).toBe(true)
        expect(given).toEqual(given.toSorted((left, right) => (left < right ? -1 : 1)))
      }),
    )
  })
})
