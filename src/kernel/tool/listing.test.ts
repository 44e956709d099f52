import { describe, expect, it } from 'vitest'
import {
  type Condition,
  conditionOf,
  FILTERS,
  type FilterCounts,
  type FoundTool,
  isUnmet,
  type ListedChange,
  type ListedRequirement,
  type ListedSource,
  type ListedTool,
  type ListingFacts,
  ORDERS,
  type Order,
  requirementsOf,
  SearchableTools,
  type ToolFilters,
  type ToolListing,
  type ToolQuery,
} from './listing.ts'

function tool(id: string, more: Partial<ListedTool> = {}): ListedTool {
  const [source = ''] = id.split('.')
  return {
    ...{ id, source, version: '1.0.0', name: id.replace('.', '_'), catalog_id: `openwop:${id}` },
    ...{ description: `Does ${id}.`, kind: 'node-pack', tier: 'read' },
    ...more,
  }
}

const SINCE = '2026-01-31T10:00:00.000Z'
const DOWN: ListedSource = { type: 'mcp', state: 'down', since: SINCE, reason: null }
const DEGRADED: ListedSource = { ...DOWN, state: 'degraded' }
const MISSING: ListedRequirement = { kind: 'secret', id: 'KEY', scopes: [], state: 'missing' }
const HELD: ListedChange = {
  ...{ kind: 'change', class: 'wording', since: SINCE },
  ...{ suspended: false, rejected: false },
}
const NOTHING: ListingFacts = { sources: {}, requirements: [], changes: {} }

function listing(tools: readonly ListedTool[], facts: Partial<ListingFacts> = {}): ToolListing {
  return { ...NOTHING, ...facts, tools }
}

function find(from: ToolListing, query: Partial<ToolQuery>): readonly string[] {
  const found: readonly FoundTool[] = new SearchableTools(from).find({ text: '', filters: {}, ...query })
  return found.map(({ tool: { id } }) => id)
}

describe('the condition of a tool', () => {
  const flawed = tool('Hub.Issue', { needs: [0], deprecated: true })
  const kindOf = (facts: Partial<ListingFacts>): Condition['kind'] | undefined =>
    conditionOf(flawed, { ...NOTHING, ...facts })?.kind

  it('is its most serious problem', () => {
    const requirements = [MISSING]
    const sources = { Hub: DOWN }
    const changes = { 'Hub.Issue': { ...HELD, suspended: true } }
    expect(kindOf({ sources, changes, requirements })).toBe('unavailable')
    expect(kindOf({ sources: { Hub: DEGRADED }, changes, requirements })).toBe('held')
    expect(kindOf({ sources: { Hub: DEGRADED }, changes: { 'Hub.Issue': HELD }, requirements })).toBe(
      'missing',
    )
    expect(kindOf({ sources: { Hub: DEGRADED }, changes: { 'Hub.Issue': HELD } })).toBe('held')
    expect(
      kindOf({ sources: { Hub: DEGRADED }, changes: { 'Hub.Issue': { ...HELD, rejected: true } } }),
    ).toBe('degraded')
    expect(kindOf({})).toBe('deprecated')
    expect(conditionOf(tool('A.B'), NOTHING)).toBeUndefined()
  })

  it('does not treat a member of Object.prototype as a fact', () => {
    const odd = tool('constructor.toString')
    expect(conditionOf(odd, NOTHING)).toBeUndefined()
    expect(find(listing([odd]), { filters: { health: ['fine'] } })).toEqual(['constructor.toString'])
  })

  it('treats a credential that each user has as met', () => {
    expect(isUnmet({ ...MISSING, state: 'per_user' })).toBe(false)
    expect(requirementsOf(flawed, { requirements: [MISSING] })).toEqual([MISSING])
  })
})

describe('search', () => {
  const tools = [
    tool('Gmail.SendEmail', { description: 'Sends one message.', fields: ['to', 'subject'] }),
    tool('Gmail.GetEmails', { description: 'Lists messages, newest first.', tags: ['inbox'] }),
    tool('slack.post', { description: 'Sends a message to a channel.', title: 'Post to Slack' }),
    tool('slack.send', { description: 'Another way.' }),
    tool('Resend.Domains', { description: 'Lists domains.' }),
  ]

  it('sorts exact matches first, then names that start with the word, then names that contain it', () => {
    expect(find(listing(tools), { text: 'send' })).toEqual([
      'slack.send',
      'Gmail.SendEmail',
      'Resend.Domains',
      'slack.post',
    ])
  })

  it('requires every word in a name, a title, a tag, a parameter or the description, in any spelling', () => {
    expect(find(listing(tools), { text: 'slack MESSAGE' })).toEqual(['slack.post'])
    expect(find(listing(tools), { text: 'subject' })).toEqual(['Gmail.SendEmail'])
    expect(find(listing(tools), { text: 'inbox' })).toEqual(['Gmail.GetEmails'])
    expect(find(listing(tools), { text: 'openwop:gmail.get' })).toEqual(['Gmail.GetEmails'])
    expect(find(listing(tools), { text: 'get emails' })).toEqual(['Gmail.GetEmails'])
    expect(find(listing(tools), { text: 'slack nothing' })).toEqual([])
  })

  it('finds the same if the index is built in parts, with pauses between them', async () => {
    const many = listing(
      Array.from({ length: 500 }, (_, at) =>
        tools.map((tool) => ({ ...tool, id: `${tool.id}${at}` })),
      ).flat(),
    )
    let pauses = 0
    const searched = await SearchableTools.inParts(many, async () => {
      pauses += 1
    })
    expect(pauses).toBe(Math.ceil(many.tools.length / 1000) + 1)
    for (const text of ['', 'send', 'get emails'])
      expect(searched.find({ text, filters: {} }).map(({ tool }) => tool.id)).toEqual(find(many, { text }))
  })

  it('finds the same after any earlier search', () => {
    const searched = new SearchableTools(listing(tools))
    const now = (text: string) => searched.find({ text, filters: {} }).map((found) => found.tool.id)
    for (const text of [
      's',
      'se',
      'sen',
      'send',
      'send m',
      'send',
      'sl',
      'slack se',
      '',
      'inbox',
      'nothing',
      'get',
    ])
      expect([text, now(text)]).toEqual([text, find(listing(tools), { text })])
  })

  it('sorts by name without words, whatever the order of the list', () => {
    expect(find(listing(tools), {})).toEqual(find(listing(tools.toReversed()), {}))
  })
})

describe('filters', () => {
  const tools = [
    tool('A.Read'),
    tool('A.Write', { tier: 'write', approval: 'always', needs: [0] }),
    tool('B.Read', { needs: [1], deprecated: true }),
  ]
  const all = listing(tools, {
    requirements: [MISSING, { ...MISSING, kind: 'oauth', id: 'hub', state: 'met' }],
    sources: { B: DOWN },
    changes: { 'A.Write': HELD },
  })
  const CASES: readonly (readonly [ToolFilters, readonly string[]])[] = [
    [{ source: ['B'] }, ['B.Read']],
    [{ source: ['A', 'B'], tier: ['read'] }, ['A.Read', 'B.Read']],
    [{ approval: ['never'] }, ['A.Read', 'B.Read']],
    [{ approval: ['always', 'conditional'] }, ['A.Write']],
    [{ needs: ['missing'] }, ['A.Write']],
    [{ needs: ['nothing', 'oauth'] }, ['A.Read', 'B.Read']],
    [{ health: ['unavailable'] }, ['B.Read']],
    [{ health: ['held'] }, ['A.Write']],
    [{ health: ['fine'] }, ['A.Read']],
    [{ health: ['deprecated'], tier: ['write'] }, []],
    [{ tier: [] }, ['A.Read', 'A.Write', 'B.Read']],
  ]
  it.each(CASES)('%j leaves %j', (filters, ids) => {
    expect(find(all, { filters })).toEqual(ids)
  })

  it('have counts that consider the other filters but not their own', () => {
    const counts: FilterCounts = new SearchableTools(all).count({
      text: '',
      filters: { source: ['A'], tier: ['read'] },
    })
    expect(Object.fromEntries(counts.tier)).toEqual({ read: 1, write: 1 })
    expect(Object.fromEntries(counts.source)).toEqual({ A: 1, B: 1 })
    expect(Object.fromEntries(counts.health)).toEqual({ fine: 1 })
    expect(FILTERS.tier).toContain('exec')
  })

  it('keep a requested order', () => {
    const calls = new Map([['B.Read', 3]])
    const orders: Record<Order, string> = {
      name: 'A.Read A.Write B.Read',
      source: 'A.Read A.Write B.Read',
      tier: 'A.Write A.Read B.Read',
      condition: 'B.Read A.Write A.Read',
      calls: 'B.Read A.Read A.Write',
    }
    for (const order of ORDERS) expect(find(all, { order, calls }).join(' ')).toBe(orders[order])
  })
})
