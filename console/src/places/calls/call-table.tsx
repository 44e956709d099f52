import { useVirtualizer } from '@tanstack/react-virtual'
import {
  type FocusEvent,
  memo,
  type ReactNode,
  type RefObject,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react'
import { useListPosition } from '../../app/list-position.ts'
import { Button } from '../../parts/button.tsx'
import { countOf, formatClock } from '../../parts/format.ts'
import { Note, StateMark, ToolName } from '../../parts/meaning.tsx'
import { messageOf } from '../../parts/states.tsx'
import { type Column, Table, useListKeys } from '../../parts/table.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { type CallRow, callerText, runTimeText } from './api.ts'
import type { LiveCallList } from './use-call-list.ts'
import { useDetails } from './use-details.ts'
import { words } from './words.ts'

/*
 * Draws the rows of the list that are in view. Used by `page.tsx`. No row moves under the pointer.
 */

const COLUMNS: readonly Column[] = [
  { title: words.time, className: 'c-time' },
  { title: words.state, className: 'c-state' },
  { title: words.tool, className: 'c-tool' },
  { title: words.details, className: 'c-details' },
  { title: words.principal, className: 'c-who' },
  { title: words.tenant, className: 'c-tenant' },
  { title: words.protocol, className: 'c-protocol' },
  { title: words.cost, className: 'c-cost', isEnd: true },
  { title: words.runTime, className: 'c-dur', isEnd: true },
]

const ROW_PX = 32
/** On a phone a row has two lines. */
const PHONE_ROW_PX = 65
const PHONE = '(max-width: 45rem)'
/** How far before the end older calls are requested. */
const NEAR_END = 20

export function CallTable({ live, scroller, selected, withInputs, onOpen }: CallTableProps): ReactNode {
  const { rows, waiting, older, olderError } = live.view
  const isPhone = useMedia(PHONE)
  const top = useRef<HTMLDivElement>(null)
  const rowPx = isPhone ? PHONE_ROW_PX : ROW_PX
  const keyOf = (index: number): string => rows[index]?.record ?? ''
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowPx,
    overscan: 12,
    scrollMargin: (top.current?.offsetTop ?? 0) - (scroller.current?.offsetTop ?? 0),
    getItemKey: keyOf,
  })
  const keys = useListKeys({
    length: rows.length,
    keyOf,
    reveal: (index) => virtual.scrollToIndex(index, { align: 'auto' }),
  })
  useListPosition({ list: virtual, length: rows.length, keyOf, focus: keys.enter })
  const hold = useHold(live, scroller)
  const drawn = virtual.getVirtualItems()
  const [first, last] = [drawn[0], drawn.at(-1)]
  const { loadOlder } = live
  const inView = drawn.flatMap(({ index }) => rows[index] ?? [])
  useDetails(live.list, inView, withInputs)
  const shown = useShownColumns(rows)
  const isNearEnd = last !== undefined && last.index > rows.length - NEAR_END
  useEffect(() => {
    // After a failure, older calls are requested again only by a person.
    if (older !== null && olderError === null && isNearEnd) loadOlder()
  }, [older, olderError, isNearEnd, loadOlder])
  const margin = virtual.options.scrollMargin
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the handlers only hold the rows still, which the focus does for the keyboard.
    <div ref={top} className="call-list" onKeyDown={keys.onKeyDown} {...hold.props}>
      {waiting > 0 && (
        <div className="new-calls">
          <button type="button" className="btn sm" onClick={hold.showNew}>
            {countOf(waiting, 'new call')}
          </button>
        </div>
      )}
      <Table caption="Calls, newest first" columns={COLUMNS} className={`calls ${shown}`}>
        <tbody>
          {first !== undefined && first.start > margin && <Space px={first.start - margin} />}
          {drawn.map(({ index, key }) => {
            const row = rows[index]
            if (row === undefined) return null
            const isStep = row.parent !== null && hasParentBefore(rows, index)
            return (
              <TableRow
                key={key}
                row={row}
                isSelected={row.record === selected}
                step={isStep ? (rows[index + 1]?.parent === row.parent ? 'inner' : 'last') : undefined}
                isTabStop={keys.current === index}
                link={keys.rowProps(index)}
                onOpen={onOpen}
              />
            )
          })}
          {last !== undefined && virtual.getTotalSize() > last.end - margin && (
            <Space px={virtual.getTotalSize() - (last.end - margin)} />
          )}
        </tbody>
      </Table>
      <OlderFailed live={live} />
    </div>
  )
}

/** Shown at the end of the list if older calls could not be read. */
export function OlderFailed({ live: { view, loadOlder } }: { readonly live: LiveCallList }): ReactNode {
  if (view.olderError === null) return null
  return (
    <Note
      tone="failed"
      action={
        <Button isSmall onClick={loadOlder}>
          Try again
        </Button>
      }
    >
      <b>Older calls could not be read.</b> {messageOf(view.olderError)}
    </Note>
  )
}

interface CallTableProps {
  readonly live: LiveCallList
  readonly scroller: RefObject<HTMLElement | null>
  readonly selected: string | undefined
  /** Whether the beginnings of inputs are shown. */
  readonly withInputs: boolean
  readonly onOpen: (record: string) => void
}

/** Takes the place of rows that are not drawn. */
function Space({ px }: { readonly px: number }): ReactNode {
  return (
    <tr className="space" style={{ height: px }}>
      <td colSpan={COLUMNS.length} />
    </tr>
  )
}

interface TableRowProps {
  readonly row: CallRow
  readonly isSelected: boolean
  readonly step: 'inner' | 'last' | undefined
  readonly isTabStop: boolean
  readonly link: ReturnType<ReturnType<typeof useListKeys>['rowProps']>
  readonly onOpen: (record: string) => void
}

const TableRow = memo(
  function TableRow({ row, isSelected, step, link, onOpen }: TableRowProps): ReactNode {
    const at = formatClock(row.created_at, { withMs: true })
    const kind = step === undefined ? '' : step === 'last' ? 'step last' : 'step'
    return (
      <tr
        className={kind === '' ? undefined : kind}
        aria-selected={isSelected}
        data-record={row.record}
        onClick={() => onOpen(row.record)}
      >
        <td className="num mono dim m-time">
          <time dateTime={row.created_at}>
            {at.slice(0, -4)}
            <i>{at.slice(-4)}</i>
          </time>
        </td>
        <td className="m-state">
          <StateMark state={row.state} isCalm />
        </td>
        <th scope="row" className="m-tool">
          <a
            {...link}
            className="tool-link flat"
            href={`calls/${encodeURIComponent(row.record)}`}
            onClick={(event) => {
              // With a modifier key, the browser opens the call in another tab or window.
              if (event.metaKey || event.ctrlKey || event.shiftKey) return event.stopPropagation()
              event.preventDefault()
            }}
          >
            <span className="clip front" title={row.tool}>
              <ToolName name={row.tool} />
            </span>
          </a>
        </th>
        <td className={row.error_code === null ? 'm-details' : 'm-details is-error'}>
          <RowDetails row={row} />
        </td>
        <td className="m-who">
          <span className={step === undefined ? 'clip mono dim' : 'clip dim'} title={callerText(row)}>
            {step === undefined ? callerText(row) : words.step}
          </span>
        </td>
        <td className="m-tenant">
          <span className="clip dim">{row.tenant}</span>
        </td>
        <td className="m-protocol dim">{row.protocol ?? ''}</td>
        <td className="end num m-cost soft">{row.cost ?? ''}</td>
        <td className="end num m-dur soft">{runTimeText(row)}</td>
      </tr>
    )
  },
  // The handlers of a row stay the same when the row moves, so they are not compared.
  (before, after) =>
    before.row === after.row &&
    before.isSelected === after.isSelected &&
    before.step === after.step &&
    before.isTabStop === after.isTabStop,
)

/** What distinguishes a row: its error, its input if it is shown, or its call id. */
function RowDetails({ row }: { readonly row: CallRow }): ReactNode {
  const { error_code: code, error_message: message, input_summary: input, call_id: id } = row
  const error = message ?? code
  return (
    <span
      className="clip"
      dir="auto"
      title={visibleText([error, input].filter((text) => text != null).join('\n'))}
    >
      {error !== null && <span className="error-text">{visibleText(error)}</span>}
      {error !== null && input != null && ' · '}
      {input != null ? (
        <span className="mono dim">{visibleText(input)}</span>
      ) : (
        error === null && <span className="mono dim">{visibleText(id ?? '')}</span>
      )}
    </span>
  )
}

/** Tenant and cost are shown if they differ between calls. A shown column stays, so that rows keep their places. */
function useShownColumns(rows: readonly CallRow[]): string {
  const shown = useRef({ tenant: false, cost: false })
  const [first] = rows
  shown.current.tenant ||= rows.some(({ tenant }) => tenant !== first?.tenant)
  shown.current.cost ||= rows.some(({ cost }) => cost != null && cost !== 1)
  return `${shown.current.tenant ? 'with-tenant' : ''} ${shown.current.cost ? 'with-cost' : ''}`
}

/** Rows are held while the pointer is over them, one has the focus, or the list is scrolled down. */
function useHold({ list }: LiveCallList, scroller: RefObject<HTMLElement | null>) {
  const hold = useRef({ isPointed: false, isFocused: false })
  const update = (): void => {
    const { isPointed, isFocused } = hold.current
    list.hold(isPointed || isFocused || (scroller.current?.scrollTop ?? 0) > 0)
  }
  const note = (change: Partial<typeof hold.current>) => () => {
    Object.assign(hold.current, change)
    update()
  }
  useEffect(() => {
    const list = scroller.current
    list?.addEventListener('scroll', update, { passive: true })
    return () => list?.removeEventListener('scroll', update)
  })
  return {
    props: {
      onPointerEnter: note({ isPointed: true }),
      onPointerLeave: note({ isPointed: false }),
      onFocus: note({ isFocused: true }),
      onBlur(event: FocusEvent<HTMLElement>): void {
        // Moving between rows keeps the list held.
        if (!event.currentTarget.contains(event.relatedTarget)) note({ isFocused: false })()
      },
    },
    showNew(): void {
      scroller.current?.scrollTo({ top: 0 })
      list.hold(false)
      update()
    },
  }
}

function hasParentBefore(rows: readonly CallRow[], index: number): boolean {
  const parent = rows[index]?.parent
  for (let before = index - 1; before >= 0; before -= 1) {
    const row = rows[before]
    if (row?.record === parent) return true
    if (row?.parent == null) return false
  }
  return false
}

function useMedia(query: string): boolean {
  const [media] = useState(() => matchMedia(query))
  return useSyncExternalStore(
    (onChange) => {
      media.addEventListener('change', onChange)
      return () => media.removeEventListener('change', onChange)
    },
    () => media.matches,
  )
}
