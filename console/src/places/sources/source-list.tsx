import { type ReactNode, useState } from 'react'
import { countsText } from '../../../../src/sources/kit/offer-counts.ts'
import { Command } from '../../app/page-command.tsx'
import { ConfirmDialog, Dialog } from '../../parts/dialog.tsx'
import { formatCount } from '../../parts/format.ts'
import { Icon, type IconName } from '../../parts/icon.tsx'
import { Ago, Note, StateMark } from '../../parts/meaning.tsx'
import { Menu } from '../../parts/menu.tsx'
import { Empty } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { Doctor, healthOf } from './doctor.tsx'
import { type Bypass, type Pin, refreshSource, removeSource, type Source } from './source-data.ts'
import { SettingsForm } from './source-settings.tsx'
import { WORDS } from './words.tsx'

/*
 * The list of sources and their state, and notes about clients that bypass this server. `page.tsx` uses it.
 */

const COLUMNS = [
  { title: WORDS.source },
  { title: WORDS.type, className: 'c-type' },
  { title: WORDS.health, className: 'c-health' },
  { title: WORDS.tools, className: 'c-tools', isEnd: true },
  { title: WORDS.changes, className: 'c-held' },
  { title: WORDS.lastSynced, className: 'c-seen', isEnd: true },
  { title: WORDS.actions, className: 'c-acts', isHidden: true },
] as const

interface SourceListProps {
  readonly sources: readonly Source[]
  /** Held definitions; `undefined` for people who may not see them. */
  readonly pins: readonly Pin[] | undefined
  readonly onChanged: () => void
}

/** Sources and their state. */
export function SourceList({ sources, pins, onChanged }: SourceListProps): ReactNode {
  return (
    <>
      <div className="sec-head">
        <h2 id="src">{WORDS.sources}</h2>
        <span className="count">{formatCount(sources.length)}</span>
      </div>
      {sources.length === 0 ? (
        <Empty title={WORDS.noSourceYet}>{WORDS.pasteAddressOrCommandMcp}</Empty>
      ) : (
        <Table caption={WORDS.sources} columns={COLUMNS} className="src">
          <tbody>
            {sources.map((source) => (
              <SourceRow key={source.key} source={source} held={heldOf(source, pins)} onChanged={onChanged} />
            ))}
          </tbody>
        </Table>
      )}
    </>
  )
}

/** Clients that bypass this server, and the command that removes their entries. */
export function BypassNotes({ bypasses }: { readonly bypasses: readonly Bypass[] }): ReactNode {
  const byClient = [...Map.groupBy(bypasses, ({ client }) => client)]
  return byClient.map(([client, entries]) => {
    const names = entries.map(({ name, clear }) =>
      clear.length === 0 ? name : WORDS.withInClearText(name, clear.join(', ')),
    )
    return (
      <Note key={client} tone="parked">
        {WORDS.reachesWithoutColletSoWithout(
          entries[0]?.title,
          visibleText(names.join(', ')),
          <Command text={`collet connect ${client} --write --only`} />,
          entries.length === 1 ? WORDS.entry : WORDS.thoseEntries,
        )}
      </Note>
    )
  })
}

/** The number of held definitions. The pins are preferred, because they include later decisions. */
function heldOf({ key, waiting }: Source, pins: readonly Pin[] | undefined): number {
  return pins?.filter((pin) => pin.source === key && pin.waiting?.rejected_by === null).length ?? waiting
}

const ICONS: Readonly<Record<string, IconName>> = {
  mcp: 'mcp',
  openapi: 'cloud',
  otc: 'cloud',
  opentool: 'cloud',
  command: 'terminal',
  pack: 'pack',
}

type OpenDialog = 'check' | 'settings' | 'remove'

interface SourceRowProps {
  readonly source: Source
  readonly held: number
  readonly onChanged: () => void
}

function SourceRow({ source, held, onChanged }: SourceRowProps): ReactNode {
  const { key, type, target, tools, read_at: readAt, configured = false } = source
  const [open, setOpen] = useState<OpenDialog>()
  const [isReading, setReading] = useState(false)
  const close = (): void => setOpen(undefined)
  const refresh = async (): Promise<void> => {
    setReading(true)
    await refreshSource(key).catch(() => undefined)
    setReading(false)
    onChanged()
  }
  return (
    <tr>
      <th scope="row">
        <span className="row nowrap">
          <b className="strong">{key}</b>
          <span className="mono dim clip">{visibleText(target ?? '')}</span>
        </span>
      </th>
      <td>
        <span className="row soft">
          <Icon name={ICONS[type] ?? 'workflow'} size={14} className="dim" />
          {type}
        </span>
      </td>
      <td>
        <Health source={source} isReading={isReading} />
      </td>
      <td data-l="tools" className="end num soft" title={countsText(source)}>
        {formatCount(tools)}
      </td>
      <td>
        {held > 0 && (
          <span className="state is-parked">
            <Icon name="pin" size={14} />
            <span>{WORDS.held(held)}</span>
          </span>
        )}
      </td>
      <td data-l="read" className="end num dim">
        {readAt === null ? 'never' : <Ago time={readAt} />}
      </td>
      <td className="end">
        <Menu
          className="btn quiet sm"
          label={<span className="vh">{WORDS.actionsFor(key)}</span>}
          items={[
            { label: WORDS.check, icon: 'eye', onChoose: () => setOpen('check') },
            { label: WORDS.readAgain, icon: 'loop', onChoose: () => void refresh() },
            { label: WORDS.settings, icon: 'settings', onChoose: () => setOpen('settings') },
            { label: WORDS.remove, icon: 'close', onChoose: () => setOpen('remove') },
          ]}
        />
        <Dialog title={WORDS.check2(key)} isOpen={open === 'check'} onClose={close}>
          <Doctor source={source} level="h2" />
        </Dialog>
        <Dialog title={WORDS.settingsFor(key)} isOpen={open === 'settings'} onClose={close}>
          <SettingsForm source={source} onDone={close} onChanged={onChanged} />
        </Dialog>
        <ConfirmDialog
          title={WORDS.remove2(key)}
          typed={key}
          verb={WORDS.removeSource}
          isOpen={open === 'remove'}
          onClose={close}
          onConfirm={async () => {
            await removeSource(key)
            onChanged()
          }}
        >
          {configured ? WORDS.setInConfigRemoveThere : WORDS.agentsLoseItsToolsWithin}
        </ConfirmDialog>
      </td>
    </tr>
  )
}

function Health({ source, isReading }: { readonly source: Source; readonly isReading: boolean }): ReactNode {
  if (isReading) return <StateMark state="running" label={WORDS.reading} />
  const label = healthOf(source)
  switch (source.state) {
    case 'ready':
      return <StateMark state="succeeded" label={label} isCalm />
    case 'starting':
      return <StateMark state="running" label={label} />
    case 'degraded':
      return (
        <span title={source.reason ?? undefined}>
          <StateMark state="parked" label={label} />
        </span>
      )
    case 'down':
      return (
        <span title={source.reason ?? undefined}>
          <StateMark state="unavailable" label={label} />
        </span>
      )
  }
}
