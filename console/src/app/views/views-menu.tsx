import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { useSession } from '../../api/session.ts'
import { Button } from '../../parts/button.tsx'
import { copyText } from '../../parts/copy-text.ts'
import { Dialog, DialogForm } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/field.tsx'
import { Menu } from '../../parts/menu.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import type { PagePath } from '../pages.ts'
import { useSearchState } from '../search-state.ts'
import { isSameView, readViews, removeView, saveView } from './saved-views.ts'
import { WORDS } from './words.ts'

/*
 * The menu of saved views: opens one, saves the filters of the page under a name, or removes one. Pages with filters use it.
 */

export function ViewsMenu({ page }: { readonly page: PagePath }): ReactNode {
  const viewer = useSession()?.principal ?? null
  const navigate = useNavigate()
  const [search] = useSearchState()
  const [views, setViews] = useState(() => readViews(viewer, page))
  const [isSaving, setSaving] = useState(false)
  const current = views.find((view) => isSameView(view.search, search))
  return (
    <>
      <Menu
        label={current === undefined ? WORDS.views : visibleText(current.name)}
        className="btn quiet"
        items={[
          ...views.map(({ name, search: kept }) => ({
            label: visibleText(name),
            onChoose: () => void navigate({ to: page, search: kept }),
          })),
          { label: WORDS.save, icon: 'plus', onChoose: () => setSaving(true) },
          { label: WORDS.copyAddress, icon: 'copy', onChoose: () => void copyText(location.href) },
          ...(current === undefined
            ? []
            : [
                {
                  ...({ label: visibleText(WORDS.remove(current.name)), icon: 'close' } as const),
                  onChoose: () => setViews(removeView(viewer, page, current.name)),
                },
              ]),
        ]}
      />
      <Dialog title={WORDS.saveTitle} isOpen={isSaving} onClose={() => setSaving(false)}>
        <SaveForm
          onCancel={() => setSaving(false)}
          onSave={(name) => {
            setViews(saveView(viewer, page, { name, search }))
            setSaving(false)
          }}
        />
      </Dialog>
    </>
  )
}

interface SaveFormProps {
  readonly onCancel: () => void
  readonly onSave: (name: string) => void
}

function SaveForm({ onCancel, onSave }: SaveFormProps): ReactNode {
  const [name, setName] = useState('')
  const [error, setError] = useState<string>()
  return (
    <DialogForm
      onSubmit={() => {
        if (name.trim() === '') setError(WORDS.nameMissing)
        else onSave(name.trim())
      }}
    >
      <p className="soft">{WORDS.explanation}</p>
      <TextField label={WORDS.name} error={error} maxLength={60} value={name} onChange={setName} />
      <p className="row end">
        <Button onClick={onCancel}>{WORDS.cancel}</Button>
        <Button kind="primary" submits>
          {WORDS.saveButton}
        </Button>
      </p>
    </DialogForm>
  )
}
