import { useNavigate } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import {
  memo,
  type ReactNode,
  type Ref,
  useImperativeHandle,
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react'
import type { FoundTool, ToolListing } from '../../api/tools.ts'
import { useListPosition } from '../../app/list-position.ts'
import { Icon, type IconName } from '../../parts/icon.tsx'
import { Tier, type TierName, ToolName } from '../../parts/meaning.tsx'
import { Menu } from '../../parts/menu.tsx'
import { type Column, Table, useListKeys } from '../../parts/table.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { ConditionMark } from './condition.tsx'
import { OWN_TOOLS } from './filters.tsx'
import { WORDS } from './words.tsx'

/*
 * Draws the found tools. `page.tsx` uses it. Only rows in view are in the document.
 */

const COLUMNS: readonly Column[] = [
  { title: WORDS.tool2 },
  { title: WORDS.source, className: 'c-source' },
  { title: WORDS.tier, className: 'c-tier' },
  { title: WORDS.egress, className: 'c-egress' },
  { title: WORDS.approval, className: 'c-appr' },
  { title: WORDS.condition, className: 'c-cond' },
  { title: WORDS.version, className: 'c-ver', isEnd: true },
]

/** Height of a row on a wide page; on a phone rows are measured. */
const ROW_PX = 48
const PHONE_ROW_PX = 86
const OVERSCAN = 4

/** The found tools. Only those in view are drawn. */
export function ToolTable({ found, sources, ref }: ToolTableProps): ReactNode {
  const body = useRef<HTMLTableSectionElement>(null)
  const [above, setAbove] = useState(0)
  // The search and the table head are above the rows in the same scrolling element.
  useLayoutEffect(() => {
    const [scroller, rows] = [scrollerOf(), body.current]
    if (scroller === null || rows === null) return
    const top = rows.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop
    setAbove(Math.round(top))
  }, [])
  const isPhone = usePhone()
  const list = useVirtualizer({
    count: found.length,
    getScrollElement: scrollerOf,
    estimateSize: () => (isPhone ? PHONE_ROW_PX : ROW_PX),
    getItemKey: (index) => found[index]?.tool.id ?? index,
    overscan: OVERSCAN,
    scrollMargin: above,
    // The head stays in view.
    scrollPaddingStart: above,
  })
  const keyOf = (index: number): string => found[index]?.tool.id ?? String(index)
  const keys = useListKeys({ length: found.length, keyOf, reveal: (index) => list.scrollToIndex(index) })
  useListPosition({ list, length: found.length, keyOf, focus: keys.enter })
  useImperativeHandle(ref, () => ({ enter: () => keys.go(0) }))
  const drawn = list.getVirtualItems()
  const [first, last] = [drawn[0], drawn.at(-1)]
  const before = first === undefined ? 0 : first.start - above
  const after = last === undefined ? 0 : list.getTotalSize() - (last.end - above)
  return (
    <Table
      className="two catalog"
      caption={WORDS.toolsYouMaySee}
      columns={COLUMNS}
      rowCount={found.length + 1}
    >
      <tbody ref={body} onKeyDown={keys.onKeyDown}>
        {before > 0 && <Gap height={before} />}
        {drawn.map(({ index, key }) => {
          const row = found[index]
          if (row === undefined) return null
          return (
            <tr
              key={key}
              ref={isPhone ? list.measureElement : undefined}
              data-index={index}
              aria-rowindex={index + 2}
            >
              <th scope="row">
                <ToolLink found={row} index={index} row={keys.rowProps(index)} />
              </th>
              <ToolCells found={row} isImported={Object.hasOwn(sources, row.tool.source)} />
            </tr>
          )
        })}
        {after > 0 && <Gap height={after} />}
      </tbody>
    </Table>
  )
}

interface ToolTableProps {
  readonly found: readonly FoundTool[]
  /** The sources of the tools. */
  readonly sources: ToolListing['sources']
  readonly ref: Ref<ToolRows>
}

export interface ToolRows {
  /** Focuses the first row, and scrolls to it if needed. */
  enter(): void
}

function scrollerOf(): HTMLElement | null {
  return document.getElementById('main')
}

/** Fills the space of rows that are not drawn. */
function Gap({ height }: { readonly height: number }): ReactNode {
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: this row cannot be focused.
    <tr className="gap" aria-hidden="true" style={{ height }}>
      <td colSpan={COLUMNS.length} />
    </tr>
  )
}

const PHONE = '(max-width: 45rem)'

function usePhone(): boolean {
  return useSyncExternalStore(
    (listener) => {
      const media = matchMedia(PHONE)
      media.addEventListener('change', listener)
      return () => media.removeEventListener('change', listener)
    },
    () => matchMedia(PHONE).matches,
  )
}

interface ToolLinkProps {
  readonly found: FoundTool
  readonly index: number
  readonly row: ReturnType<ReturnType<typeof useListKeys>['rowProps']>
}

/**
 * A plain link that the router follows, because the router's link component costs more than the rest of the row. Redrawn only
 * after a change: the key props of a row are stable.
 */
const ToolLink = memo(function ToolLink({ found: { tool }, row }: ToolLinkProps): ReactNode {
  const navigate = useNavigate()
  return (
    <a
      className="tool-link"
      href={`tools/${encodeURIComponent(tool.id)}`}
      {...row}
      onClick={(event) => {
        if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
        event.preventDefault()
        void navigate({ to: '/tools/$id', params: { id: tool.id } })
      }}
    >
      <span
        className="clip front"
        title={visibleText(tool.title === undefined ? tool.id : `${tool.id}: ${tool.title}`)}
      >
        <ToolName name={tool.id} />
      </span>
      <span className="desc clip" dir="auto" title={visibleText(tool.description)}>
        {tool.tenants !== undefined && <span className="soft">{WORDS.onlyFor(tool.tenants.join(', '))}</span>}
        {visibleText(withoutHeading(tool.description))}
      </span>
    </a>
  )
}, isSameLink)

/** A description may begin with a Markdown heading, of which a row shows the text. */
function withoutHeading(description: string): string {
  return description.replace(/^\s*#+\s+/, '')
}

function isSameLink(before: ToolLinkProps, after: ToolLinkProps): boolean {
  return (
    before.found === after.found && before.index === after.index && before.row.tabIndex === after.row.tabIndex
  )
}

interface ToolCellsProps extends Pick<ToolLinkProps, 'found'> {
  readonly isImported: boolean
}

const ToolCells = memo(function ToolCells({
  found: { tool, condition },
  isImported,
}: ToolCellsProps): ReactNode {
  const approval = tool.approval ?? 'never'
  return (
    <>
      <td className="m-src">
        <span className="row soft">
          <Icon name={KIND_ICONS[tool.kind] ?? 'pack'} size={14} className="dim" />
          <span className="clip">{originOf(tool, isImported)}</span>
        </span>
      </td>
      <td className="m-tier">{isTier(tool.tier) ? <Tier tier={tool.tier} /> : tool.tier}</td>
      <td className={tool.egress === undefined || tool.egress === 'none' ? 'm-eg dim' : 'm-eg soft'}>
        {tool.egress ?? ''}
      </td>
      <td
        className={`m-ap ${APPROVAL_CLASSES[approval]}`}
        data-l="approval"
        title={tool.approval_rule === true ? WORDS.approvalRuleDecidesWhichCalls : undefined}
      >
        {approval}
      </td>
      <td className="m-cond">
        <ConditionMark condition={condition} />
      </td>
      <td className="m-ver end">
        <Version id={tool.id} version={tool.version} versions={tool.versions} />
      </td>
    </>
  )
})

/** Tools in code have one type on the wire, whether the config defines them or imports a package. */
function originOf({ kind }: FoundTool['tool'], isImported: boolean): string {
  if (kind !== 'node-pack') return kind
  return isImported ? 'pack' : OWN_TOOLS
}

/** The newest version, and a link to the others. */
function Version({
  id,
  version,
  versions,
}: {
  readonly id: string
  readonly version: string
  readonly versions: readonly string[] | undefined
}): ReactNode {
  const navigate = useNavigate()
  if (versions === undefined) return <span className="mono soft one">{version}</span>
  return (
    <Menu
      className="ver mono"
      label={
        <>
          <span className="vh">{WORDS.version2(id)}</span>
          {version}
        </>
      }
      items={versions.map((each) => ({
        label: each === version ? `${each} newest` : each,
        onChoose: () =>
          void navigate({
            to: '/tools/$id',
            params: { id },
            search: each === version ? {} : { version: each },
          }),
      }))}
    />
  )
}

const KIND_ICONS: Readonly<Record<string, IconName>> = {
  'node-pack': 'pack',
  mcp: 'mcp',
  workflow: 'workflow',
  connector: 'cloud',
  'host-extension': 'terminal',
}

const APPROVAL_CLASSES = { never: 'dim', conditional: 'soft', always: 'strong' } as const

const TIERS: readonly TierName[] = ['pure', 'read', 'write', 'exec']

function isTier(tier: string): tier is TierName {
  return TIERS.some((known) => known === tier)
}
