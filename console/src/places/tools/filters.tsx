import { type ReactNode, useCallback, useRef } from 'react'
import { FILTERS, ORDERS, type Order, type SearchableTools } from '../../api/tools.ts'
import { SearchInput, Select } from '../../parts/field.tsx'
import { Filter, type FilterOption } from '../../parts/menu.tsx'
import { FILTER_NAMES, type FilterName, type ToolQuery } from './tool-query.ts'
import { WORDS } from './words.tsx'

/*
 * The search, filters and order of the catalog. `page.tsx` and `tool-table.tsx` use it. Each choice shows how many tools it
 * would leave.
 */

/** Search, five filters and the order. Each choice shows how many tools it would leave. */
export function ToolsBar({ query, tools, found, mayCount, onDown, onEnter }: ToolsBarProps): ReactNode {
  return (
    <div className="tools-bar" role="search">
      <SearchInput
        label={WORDS.searchTools}
        placeholder={WORDS.searchByNamePurposeOr}
        value={query.text}
        onChange={query.setText}
        onDown={onDown}
        onEnter={onEnter}
      />
      <div className="filters" role="group" aria-label={WORDS.filters}>
        {FILTER_NAMES.map((name) => (
          <ToolFilter key={name} name={name} query={query} tools={tools} />
        ))}
      </div>
      <span className="found num dim">
        <span role="status">{found}</span>
        <Select
          isBare
          aria-label={WORDS.order}
          value={query.order ?? ''}
          onChange={({ currentTarget: { value } }) => query.setOrder(ORDERS.find((order) => order === value))}
          options={ordersFor(query, mayCount)}
        />
      </span>
    </div>
  )
}

interface ToolsBarProps {
  readonly query: ToolQuery
  readonly tools: SearchableTools
  /** "1,284 found" */
  readonly found: string
  /** Whether the person may see how often tools were called. */
  readonly mayCount: boolean
  /** Moves the focus from the search to the list. */
  readonly onDown: () => void
  /** Opens the first result. */
  readonly onEnter: () => void
}

/** The label of tools that are not imported. */
export const OWN_TOOLS = WORDS.thisConfig

/** The props do not change while a person types, so that only the rows are redrawn. */
function ToolFilter({ name, query, tools }: ToolFilterProps): ReactNode {
  const now = useRef({ query, tools })
  now.current = { query, tools }
  const options = useCallback(() => optionsOf(name, now.current), [name])
  const labelOf = useCallback((value: string) => valueLabel(name, value, now.current.tools), [name])
  const choose = useCallback((values: readonly string[]) => now.current.query.setFilter(name, values), [name])
  return (
    <Filter
      label={LABELS[name]}
      values={query.filters[name] ?? NONE}
      options={options}
      labelOf={labelOf}
      onChange={choose}
    />
  )
}

interface ToolFilterProps extends Pick<ToolsBarProps, 'query' | 'tools'> {
  readonly name: FilterName
}

const NONE: readonly string[] = []

const LABELS = {
  source: WORDS.source,
  tier: WORDS.tier,
  approval: WORDS.approval,
  needs: WORDS.needs,
  health: WORDS.health,
} as const satisfies Record<FilterName, string>

const VALUE_LABELS: ReadonlyMap<string, string> = new Map([
  ['missing', WORDS.somethingMissing],
  ['oauth', WORDS.account],
  ['secret', WORDS.secret],
  ['user', WORDS.userId],
  ['scope', WORDS.scope],
  ['held', WORDS.changeHeld2],
])

function optionsOf(
  name: FilterName,
  { query: { text, filters }, tools }: Pick<ToolsBarProps, 'query' | 'tools'>,
): readonly FilterOption[] {
  const counts = tools.count({ text, filters })[name]
  const set = filters[name] ?? NONE
  const sources = tools.listing.tools.map(({ source }) => source)
  const values = name === 'source' ? [...new Set([...sources, ...set])].sort(byLetters) : FILTERS[name]
  return values
    .filter((value) => name !== 'source' || counts.has(value) || set.includes(value))
    .map((value) => ({ value, count: counts.get(value) ?? 0 }))
}

function valueLabel(name: FilterName, value: string, tools: SearchableTools): string {
  return name === 'source' ? sourceLabel(value, tools) : (VALUE_LABELS.get(value) ?? value)
}

function sourceLabel(toolkit: string, { listing }: SearchableTools): string {
  return Object.hasOwn(listing.sources, toolkit) ? toolkit : `${toolkit} (${OWN_TOOLS})`
}

function byLetters(left: string, right: string): number {
  return left.localeCompare(right)
}

const ORDER_LABELS = {
  name: WORDS.byName,
  source: WORDS.bySource,
  tier: WORDS.byTier,
  condition: WORDS.byCondition,
  calls: WORDS.mostCalledFirst,
} as const satisfies Record<Order, string>

/** The available orders. The default is by relevance, or by name without a search. */
function ordersFor({ text, order }: ToolQuery, mayCount: boolean) {
  const hasText = text.trim() !== ''
  const offered = ORDERS.filter((each) => {
    if (each === order) return true
    if (each === 'calls') return mayCount
    return each !== 'name' || hasText
  })
  return [
    { value: '', label: hasText ? WORDS.bestMatch : WORDS.byName },
    ...offered.map((each) => ({ value: each, label: ORDER_LABELS[each] })),
  ]
}
