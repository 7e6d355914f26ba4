(() => {
'use strict';
// Where pages may not write to the clipboard, as of an insecure origin, what is selected can be copied.
async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const selection = getSelection();
    selection.selectAllChildren(from);
    return document.execCommand('copy');
  }
}
for (const button of document.querySelectorAll('button[data-copy]')) {
  const from = button.previousElementSibling;
  button.hidden = false;
  button.addEventListener('click', async () => {
    button.textContent = await copy(from.textContent, from) ? 'Copied' : 'Press Ctrl+C';
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
}
const slider = document.querySelector('.slider');
if (slider) {
  const input = slider.querySelector('input'), says = slider.querySelector('output');
  const bars = slider.querySelectorAll('svg[role] rect');
  const rows = document.querySelectorAll('.stops tbody tr');
  const show = () => {
    const chosen = rows[input.value];
    for (const row of rows) row.classList.toggle('chosen', row === chosen);
    says.textContent = chosen.dataset.says;
    input.setAttribute('aria-valuetext', chosen.dataset.says);
    let end = 0;
    chosen.dataset.parts.split(' ').forEach((part, at) => {
      bars[at].setAttribute('x', end);
      bars[at].setAttribute('width', part);
      end += +part;
    });
  };
  input.addEventListener('input', show);
  slider.hidden = false;
  show();
}
})();
