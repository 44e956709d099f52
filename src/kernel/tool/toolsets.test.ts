import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Principal, withinToolset } from '#kernel/base/principal'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { LiveRegistry, Registry } from './catalog.ts'
import { CatalogChanges } from './catalog-changes.ts'
import type { SafetyTier } from './tool.ts'
import { findUnused, matchesGlob, NO_TOOLSETS, selectorProblem, selects, type Toolsets } from './toolsets.ts'

const made = (id: string, safetyTier: SafetyTier = 'read', more: object = {}) =>
  sampleTool(id, () => null, { policy: { safetyTier }, ...more })

const FIND = made('Crm.Find@1.0.0', 'read', { tags: ['crm', 'search'] })
const SAVE = made('Crm.Save@1.0.0', 'write', { tags: ['crm'] })
const SAVE2 = made('Crm.Save@2.0.0', 'write')
const ISSUE = made('GitHub.create_issue@1.0.0', 'write')
const TOOLS = [FIND, SAVE, SAVE2, ISSUE]
const ANYONE: Principal = { id: 'key:x', tenant: 'default', scopes: [] }
const set = (include: string[], more: object = {}) => ({ include, exclude: [], ...more })
const idsIn = (registry: Pick<Registry, 'catalogFor'>, principal: Principal) =>
  registry.catalogFor(principal).tools.map(({ id }) => id)

describe('a selector', () => {
  it.each([
    ['Crm.Find', [FIND.id]],
    ['Crm_Find', [FIND.id]],
    ['openwop:Crm.Find', [FIND.id]],
    ['Crm.Save', [SAVE.id, SAVE2.id]],
    ['Crm.Save@1', [SAVE.id]],
    ['Crm_Save@2.0.0', [SAVE2.id]],
    ['Crm.*', [FIND.id, SAVE.id, SAVE2.id]],
    ['Crm_*', [FIND.id, SAVE.id, SAVE2.id]],
    ['*.Save@2.*', [SAVE2.id]],
    ['openwop:*', TOOLS.map(({ id }) => id)],
    ['source:GitHub', [ISSUE.id]],
    ['source:Git*', [ISSUE.id]],
    ['tag:crm', [FIND.id, SAVE.id]],
    ['tag:s*', [FIND.id]],
    ['crm.find', []],
    ['toolset:crm', []],
    ['tag:', []],
    ['', []],
  ])('%j selects the tools with this name, source or tag', (text, ids) => {
    expect(TOOLS.filter((tool) => selects(text, tool)).map(({ id }) => id)).toEqual(ids)
  })

  it('matches like the equivalent regular expression, for any text', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*'), maxLength: 8 })
    fc.assert(
      fc.property(text, text, (name, pattern) => {
        const parts = pattern.split('*').map((part) => part.replaceAll('.', '\\.'))
        expect(matchesGlob(name, pattern)).toBe(new RegExp(`^${parts.join('.*')}$`).test(name))
      }),
    )
  })

  it.each([
    ['Crm.Fnid', /^there is no tool "Crm.Fnid"\. Did you mean "Crm.Find"\?$/],
    ['Crn.*', /^"Crn\.\*" matches no tool\. Did you mean "Crm\.\*"\?$/],
    // Without its dot, the pattern would also match tools of other toolkits.
    ['GitHb.*', /^"GitHb\.\*" matches no tool\. Did you mean "GitHub\.\*"\?$/],
    ['source:GitHup', /^there is no source "GitHup"\. Did you mean "GitHub"\?$/],
    ['source:Later', /^the source "Later" has no tools here yet\.$/],
    ['tag:serch', /^no tool has the tag "serch"\. Did you mean "search"\?$/],
    ['toolset:crn', /^there is no toolset "crn"\. Did you mean "crm"\?$/],
    ['two words', /^"two words" is neither a tool name/],
  ])('%j selects nothing, and a correction is suggested', (text, message) => {
    const known = { tools: TOOLS, sources: ['Later'], toolsets: new Map([['crm', set(['*'])]]) }
    expect(selectorProblem(text, known)).toMatch(message)
  })
})

describe('a toolset', () => {
  const toolsets: Toolsets = new Map([
    ['crm', set(['Crm.*'])],
    ['safe', set(['*'], { tier: 'read' })],
    ['issues', set(['source:GitHub', 'tag:search'], { exclude: ['Crm.Find'] })],
  ])
  const registry = new Registry(TOOLS, new Map(), toolsets)

  it('contains the tools that are included, are not excluded and do not exceed its tier', () => {
    const within = (name: string) => idsIn(registry, withinToolset(ANYONE, name))
    expect(within('crm')).toEqual([FIND.id, SAVE.id, SAVE2.id])
    expect(within('safe')).toEqual([FIND.id])
    expect(within('issues')).toEqual([ISSUE.id])
    expect(within('not-there')).toEqual([])
  })

  it('restricts a credential in addition to its allow-list, its roles and the address', () => {
    const bound = { ...ANYONE, tools: ['toolset:crm', 'GitHub.create_issue'] }
    expect(idsIn(registry, bound)).toEqual(TOOLS.map(({ id }) => id))
    expect(idsIn(registry, { ...bound, toolsets: ['safe', 'issues'] })).toEqual([FIND.id, ISSUE.id])
    expect(idsIn(registry, withinToolset({ ...bound, toolsets: ['safe', 'issues'] }, 'crm'))).toEqual([
      FIND.id,
    ])
    expect(idsIn(registry, { ...ANYONE, toolsets: [] })).toEqual([])
    expect(idsIn(registry, { ...ANYONE, tools: ['toolset:gone'] })).toEqual([])
  })

  it('is computed once: the same caller at the same address has the same catalog', () => {
    const [one, other] = [withinToolset(ANYONE, 'crm'), withinToolset({ ...ANYONE }, 'crm')]
    expect(withinToolset(ANYONE, 'crm')).toBe(one)
    expect(registry.catalogFor(one)).toBe(registry.catalogFor(other))
    expect(registry.catalogFor(one)).not.toBe(registry.catalogFor(ANYONE))
  })

  it('changes notify only principals whose tools changed', async () => {
    const changes = new CatalogChanges()
    const live = new LiveRegistry([FIND, ISSUE], new Map(), changes, toolsets)
    const notified: string[] = []
    changes.listen((isAffected) => {
      for (const name of ['crm', 'issues']) if (isAffected(withinToolset(ANYONE, name))) notified.push(name)
    })
    await live.replace([FIND, SAVE, ISSUE], new Map())
    expect(notified.splice(0)).toEqual(['crm'])
    live.regroup(new Map([...toolsets, ['issues', set(['Crm.Find'])]]))
    expect(notified.splice(0)).toEqual(['issues'])
    await live.replace([FIND, SAVE], new Map())
    expect(notified).toEqual([])
    expect(idsIn(live, withinToolset(ANYONE, 'issues'))).toEqual([FIND.id])
  })

  it('reports selectors that select nothing', () => {
    const written = new Map([
      ['crm', set(['Crm.*', 'Crn.Find'], { exclude: ['tag:old'] })],
      ['none', set(['GitHub.*'], { tier: 'pure' })],
      ['all', set(['*'])],
    ])
    expect(findUnused(written, { tools: TOOLS, sources: [] }).map(({ text }) => text)).toEqual([
      'toolsets.crm.include: there is no tool "Crn.Find". Did you mean "Crm.Find"?',
      'toolsets.crm.exclude: no tool has the tag "old".',
      'toolsets.none: has no tools. None of the tools that it includes has the tier "pure" or a lower one.',
    ])
    expect(findUnused(NO_TOOLSETS, { tools: [], sources: [] })).toEqual([])
  })
})
