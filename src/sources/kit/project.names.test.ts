import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseToolId } from '#kernel/base/ids'
import { readCatalogId } from '#kernel/tool/checks'
import type { SourceKind } from '#kernel/tool/tool'
import { assignLocalNames, catalogIdOf, functionNameOf, toolkitOf } from './project.ts'

const KINDS: readonly SourceKind[] = ['node-pack', 'workflow', 'mcp', 'connector', 'host-extension']
const NATIVE = fc.oneof(
  fc.string({ minLength: 1, unit: 'binary', maxLength: 300 }),
  fc.stringMatching(/^[a-b_ -]{1,4}$/),
)

const PARTS = { base: 'X.Y', toolkit: 'X', name: 'Y', version: '1.0.0' }

function catalogIds(kind: SourceKind, key: string, natives: readonly string[]): readonly string[] {
  const toolkit = toolkitOf(key)
  return [...assignLocalNames(natives, new Map())].map(([nativeName, local]) =>
    catalogIdOf(kind, { toolkit, nativeName, local, vendor: toolkit }),
  )
}

describe('names of imported tools', () => {
  it('replaces unsupported characters, and adds eight hex digits if a name is taken', () => {
    const names = assignLocalNames(['read file', 'read_file', 'read-file', 'list'], new Map())
    expect(names.get('read_file')).toBe('read_file')
    expect(names.get('list')).toBe('list')
    expect(names.get('read file')).toMatch(/^read_file_[0-9a-f]{8}$/)
    expect(names.get('read-file')).toMatch(/^read_file_[0-9a-f]{8}$/)
    expect(names.get('read file')).not.toBe(names.get('read-file'))
  })

  it('gives the same names for every order of the tools', () => {
    fc.assert(
      fc.property(fc.uniqueArray(NATIVE, { maxLength: 8 }), (natives) => {
        const [forth, back] = [natives, natives.toReversed()].map((list) => assignLocalNames(list, new Map()))
        expect(back).toEqual(forth)
      }),
    )
  })

  it('never changes an assigned name, and never assigns a name twice', () => {
    fc.assert(
      fc.property(fc.uniqueArray(NATIVE), fc.uniqueArray(NATIVE), (first, later) => {
        const before = assignLocalNames(first, new Map())
        const after = assignLocalNames([...first, ...later], before)
        for (const [native, local] of before) expect(after.get(native)).toBe(local)
        expect(new Set(after.values()).size).toBe(after.size)
      }),
    )
  })

  it('OTC-23, OTC-25: are ids and function names', () => {
    fc.assert(
      fc.property(NATIVE, NATIVE, (key, native) => {
        const toolkit = toolkitOf(key)
        const local = assignLocalNames([native], new Map()).get(native) ?? ''
        expect(parseToolId(`${toolkit}.${local}@1.0.0`)).toMatchObject({ toolkit, name: local })
        expect(functionNameOf(toolkit, local)).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
      }),
    )
  })

  it.each(KINDS)('openwop §7.1: every catalog id of %s fits its grammar, and no two are equal', (kind) => {
    fc.assert(
      fc.property(fc.stringMatching(/^[A-Za-z][\w-]{0,70}$/), fc.uniqueArray(NATIVE), (key, natives) => {
        const ids = catalogIds(kind, key, natives)
        const problems: string[] = []
        for (const id of ids)
          readCatalogId(
            id,
            { parts: PARTS, source: kind, vendor: 'acme' },
            (_where, problem) => void problems.push(problem),
          )
        expect(problems).toEqual([])
        // Half a surrogate pair cannot be encoded, and the store refuses a name with one.
        if (natives.every((native) => native.isWellFormed())) expect(new Set(ids).size).toBe(ids.length)
      }),
    )
  })

  it('openwop §7.1: examples', () => {
    const idOf = (kind: SourceKind, key: string, native: string) => catalogIds(kind, key, [native])[0]
    expect(idOf('mcp', 'fs', 'read')).toBe('mcp:fs.read')
    expect(idOf('connector', 'slack', 'chat.post/now')).toBe('connector:slack.chat.post/now')
    expect(idOf('connector', 'slack', 'grüße ☃')).toBe('connector:slack.gr%C3%BC%C3%9Fe%20%E2%98%83')
    const exec = { toolkit: 'fs', nativeName: 'run', local: 'run', vendor: 'acme' }
    expect(catalogIdOf('mcp', { ...exec, safetyTier: 'exec' })).toBe('x-host-acme-fs-run')
    expect(catalogIdOf('mcp', { ...exec, safetyTier: 'write' })).toBe('mcp:fs.run')
    expect(idOf('host-extension', 'acme', 'disk_usage')).toBe('x-host-acme-disk-usage')
    expect(idOf('host-extension', 'Acme', 'Shell')).toMatch(/^x-host-acme-[0-9a-f]{8}-shell-[0-9a-f]{8}$/)
  })
})
