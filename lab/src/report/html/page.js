'use strict';
// Shows words that the page already holds, and hides lines; it computes nothing.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const tip = document.getElementById('tip');
  const hidden = new Set();
  document.documentElement.classList.add('js');

  // The legend: an entry switches everything of its variant off and on.
  for (const button of all('.legend button')) {
    button.addEventListener('click', () => {
      const v = button.dataset.v;
      const off = !hidden.has(v);
      off ? hidden.add(v) : hidden.delete(v);
      button.setAttribute('aria-pressed', String(!off));
      for (const part of all(`main [data-v="${v}"]`)) {
        if (part !== button) part.classList.toggle('off', off);
      }
    });
  }

  const cell = (row, tag, text = '', className = '') => {
    const e = row.appendChild(document.createElement(tag));
    e.textContent = text;
    e.className = className;
  };

  // What the table of a metric says in a row, best value first as the lines lie above each other.
  const fill = (figures, i) => {
    const row = all('tbody tr', figures)[i];
    const heads = all('thead th[data-v]', figures);
    const said = all('td', row)
      .map((td, k) => ({
        head: heads[k],
        value: td.firstChild.textContent,
        interval: td.querySelector(':scope > small:first-child'),
        verdict: td.querySelector('.verdict'),
      }))
      .filter((f) => /\d/.test(f.value))
      .filter((f) => !hidden.has(f.head.dataset.v))
      .sort((a, b) => b.value.replaceAll(',', '') - a.value.replaceAll(',', ''));
    const n = row.cells[0].textContent;
    const title = document.createElement('div');
    const bold = title.appendChild(document.createElement('b'));
    bold.textContent = n + (n === '1' ? ' client' : ' clients');
    title.append(' · ' + figures.dataset.unit);
    const table = document.createElement('table');
    for (const f of said) {
      const tr = table.insertRow();
      cell(tr, 'th', f.head.textContent, 'name ' + f.head.className);
      cell(tr, 'td', f.value, 'value');
      cell(tr, 'td', f.verdict ? f.verdict.textContent : '', f.verdict ? f.verdict.className : '');
      cell(tr, 'td', f.interval ? f.interval.textContent : '', 'interval');
    }
    tip.replaceChildren(title, table);
  };

  for (const svg of all('svg.chart')) {
    const figures = svg.closest('section').querySelector(`table[data-metric="${svg.dataset.metric}"]`);
    const clients = svg.dataset.n.split(' ');
    const xs = svg.dataset.x.split(' ').map(Number);
    const [top, bottom] = svg.dataset.plot.split(' ');
    const cross = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    cross.setAttribute('class', 'cross');
    let at = -1;

    const leave = () => {
      at = -1;
      tip.hidden = true;
      cross.remove();
      for (const dot of all('circle.at', svg)) dot.classList.remove('at');
    };
    const show = (i) => {
      if (i < 0 || i >= xs.length) return;
      at = i;
      for (const dot of all('circle', svg)) dot.classList.toggle('at', dot.dataset.n === clients[i]);
      cross.setAttribute('d', `M${xs[i]} ${top}V${bottom}`);
      svg.querySelector('.axis').append(cross);
      fill(figures, i);
      tip.hidden = false;
      // Beside the line, on the side that has room.
      const box = svg.getBoundingClientRect();
      const scale = box.width / svg.viewBox.baseVal.width;
      const x = box.left + xs[i] * scale;
      const width = tip.offsetWidth;
      const left = x + 14 + width < innerWidth ? x + 14 : Math.max(4, x - 14 - width);
      tip.style.left = left + scrollX + 'px';
      tip.style.top = box.top + scrollY + Number(top) * scale + 'px';
    };

    svg.addEventListener('pointermove', (event) => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) * (svg.viewBox.baseVal.width / box.width);
      let best = 0;
      xs.forEach((value, i) => { if (Math.abs(value - x) < Math.abs(xs[best] - x)) best = i; });
      if (best !== at) show(best);
    });
    svg.addEventListener('pointerleave', leave);
    // The same from the keyboard.
    svg.setAttribute('tabindex', '0');
    svg.addEventListener('focus', () => { if (svg.matches(':focus-visible')) show(xs.length - 1); });
    svg.addEventListener('blur', leave);
    svg.addEventListener('keydown', (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) { event.preventDefault(); show(at < 0 ? xs.length - 1 : at + step); }
      if (event.key === 'Escape') leave();
    });
  }
})();
