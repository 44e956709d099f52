import { type ReactNode, useCallback, useRef } from 'react'
import { FILTERS, ORDERS, type Order, type SearchableTools } from '../../api/tools.ts'
import { SearchInput, Select } from '../../parts/field.tsx'
import { Filter, type FilterOption } from '../../parts/menu.tsx'
import { type Asked, FILTER_NAMES, type FilterName } from './question.ts'

/** Search, five filters and the order. Each choice shows how many tools it would leave. */
export function ToolsBar({ asked, tools, found, mayCount, onDown, onEnter }: ToolsBarProps): ReactNode {
  return (
    <div className="tools-bar" role="search">
      <SearchInput
        label="Search tools"
        placeholder="Search by name, purpose or field"
        value={asked.text}
        onChange={asked.setText}
        onDown={onDown}
        onEnter={onEnter}
      />
      <div className="filters" role="group" aria-label="Filters">
        {FILTER_NAMES.map((name) => (
          <ToolFilter key={name} name={name} asked={asked} tools={tools} />
        ))}
      </div>
      <span className="found num dim">
        <span role="status">{found}</span>
        <Select
          isBare
          aria-label="Order"
          value={asked.order ?? ''}
          onChange={({ currentTarget: { value } }) => asked.setOrder(ORDERS.find((order) => order === value))}
          options={ordersFor(asked, mayCount)}
        />
      </span>
    </div>
  )
}

interface ToolsBarProps {
  readonly asked: Asked
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

/** Labels of tools that are not imported. */
export const OWN_TOOLS = 'this config'

/** The props do not change while a person types, so that only the rows are redrawn. */
function ToolFilter({ name, asked, tools }: ToolFilterProps): ReactNode {
  const now = useRef({ asked, tools })
  now.current = { asked, tools }
  const options = useCallback(() => optionsOf(name, now.current), [name])
  const choose = useCallback((values: readonly string[]) => now.current.asked.setFilter(name, values), [name])
  return (
    <Filter label={LABELS[name]} values={asked.filters[name] ?? NONE} options={options} onChange={choose} />
  )
}

interface ToolFilterProps extends Pick<ToolsBarProps, 'asked' | 'tools'> {
  readonly name: FilterName
}

const NONE: readonly string[] = []

const LABELS = {
  source: 'Source',
  tier: 'Tier',
  approval: 'Approval',
  needs: 'Needs',
  health: 'Health',
} as const satisfies Record<FilterName, string>

const WORDS: ReadonlyMap<string, string> = new Map([
  ['missing', 'something missing'],
  ['oauth', 'an account'],
  ['secret', 'a secret'],
  ['user', 'a user id'],
  ['scope', 'a scope'],
  ['held', 'change held'],
])

function optionsOf(
  name: FilterName,
  { asked: { text, filters }, tools }: Pick<ToolsBarProps, 'asked' | 'tools'>,
): readonly FilterOption[] {
  const counts = tools.count({ text, filters })[name]
  const set = filters[name] ?? NONE
  const sources = tools.listing.tools.map(({ source }) => source)
  const values = name === 'source' ? [...new Set([...sources, ...set])].sort(byLetters) : FILTERS[name]
  return values
    .filter((value) => name !== 'source' || counts.has(value) || set.includes(value))
    .map((value) => ({
      value,
      label: name === 'source' ? sourceLabel(value, tools) : (WORDS.get(value) ?? value),
      count: counts.get(value) ?? 0,
    }))
}

function sourceLabel(toolkit: string, { listing }: SearchableTools): string {
  return Object.hasOwn(listing.sources, toolkit) ? toolkit : `${toolkit} (${OWN_TOOLS})`
}

function byLetters(left: string, right: string): number {
  return left.localeCompare(right)
}

const ORDER_WORDS = {
  name: 'By name',
  source: 'By source',
  tier: 'By tier',
  condition: 'By condition',
  calls: 'Most called first',
} as const satisfies Record<Order, string>

/** Default order: by relevance, or by name without a search. */
function ordersFor({ text, order }: Asked, mayCount: boolean) {
  const hasWords = text.trim() !== ''
  const offered = ORDERS.filter((each) => {
    if (each === order) return true
    if (each === 'calls') return mayCount
    return each !== 'name' || hasWords
  })
  return [
    { value: '', label: hasWords ? 'Best match' : 'By name' },
    ...offered.map((each) => ({ value: each, label: ORDER_WORDS[each] })),
  ]
}
