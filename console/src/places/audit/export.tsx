import { type ReactNode, useState } from 'react'
import { saveFile } from '../../api/save-file.ts'
import { holdsScope, useSession } from '../../api/session.ts'
import { announce } from '../../app/announcer.tsx'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { boundsOf, formatRange, type TimeRange } from '../../parts/charts/time-range.ts'
import { Dialog, DialogForm } from '../../parts/dialog.tsx'
import { Choices } from '../../parts/field.tsx'
import { Note } from '../../parts/meaning.tsx'
import { type JournalFilters, paramsOf } from './journal-data.ts'
import { EXPORTED, words } from './words.ts'

/*
 * The dialog that saves the journal, calls, usage, approvals or denied requests as a file. `journal.tsx` uses it. It says what a row is,
 * and offers only what the person may see.
 */

interface ExportProps {
  readonly filters: JournalFilters
  readonly range: TimeRange
}

type What = (typeof EXPORTED)[number]['what']

export function ExportButton({ filters, range }: ExportProps): ReactNode {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button isSmall onClick={() => setOpen(true)}>
        {words.export}
      </Button>
      <Dialog title={words.exportTitle} isOpen={isOpen} onClose={() => setOpen(false)}>
        <ExportForm filters={filters} range={range} onClose={() => setOpen(false)} />
      </Dialog>
    </>
  )
}

function ExportForm({ filters, range, onClose }: ExportProps & { readonly onClose: () => void }): ReactNode {
  const principal = useSession()?.principal
  const [what, setWhat] = useState<What>('journal')
  const [format, setFormat] = useState<'csv' | 'jsonl'>('csv')
  const { isBusy, failure, run } = useAction(async () => {
    announce(
      words.saved(await saveFile(`/admin/export/${what}?${exportParams(what, format, filters, range)}`)),
    )
    onClose()
  })
  const mayExport = (scope: string): boolean =>
    holdsScope(principal, scope) || (scope === 'approvals:read' && holdsScope(principal, 'approvals:respond'))
  return (
    <DialogForm onSubmit={run}>
      <p className="soft">
        {formatRange(boundsOf(range))}. {words.exportIntro}
      </p>
      <Choices
        legend={words.exportWhat}
        name="export-what"
        value={what}
        onChange={setWhat}
        choices={EXPORTED.map(({ what: value, label, row, scope }) => ({
          value,
          label,
          explanation: row,
          off: mayExport(scope) ? undefined : words.needsScope(scope),
        }))}
      />
      <Choices
        legend={words.exportFormat}
        name="export-format"
        value={format}
        onChange={setFormat}
        choices={[
          { value: 'csv', label: words.csv },
          { value: 'jsonl', label: words.jsonl },
        ]}
      />
      {failure !== undefined && <Note tone="failed">{failure}</Note>}
      <p className="row end">
        <Button onClick={onClose}>{words.cancel}</Button>
        <Button kind="primary" submits writes isBusy={isBusy}>
          {words.download}
        </Button>
      </p>
    </DialogForm>
  )
}

/** The filters of the page select events, so other exports take its period only. */
function exportParams(
  what: What,
  format: string,
  filters: JournalFilters,
  range: TimeRange,
): URLSearchParams {
  const none = { person: '', action: '', object: '', tenant: '' }
  const params = paramsOf(what === 'journal' ? filters : none, range)
  params.set('format', format)
  return params
}
