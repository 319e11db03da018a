'use strict';
// Search and zoom for flamegraphs that are already drawn.
(() => {
  const WIDTH = 1160, LETTER = 6.4;
  for (const svg of document.querySelectorAll('svg.flame')) {
    const boxes = [...svg.querySelectorAll('g')].map((g) => {
      const rect = g.querySelector('rect');
      const title = g.querySelector('title').textContent;
      const name = title.split('\n')[0];
      const bang = name.indexOf('!');
      const short = bang > 0 && !/[(< :]/.test(name.slice(0, bang)) ? name.slice(bang + 1) : name;
      return { g, rect, name, short, text: g.querySelector('text'), x: +rect.getAttribute('x'), y: +rect.getAttribute('y'), w: +rect.getAttribute('width') };
    });

    const label = (box, x, w) => {
      const room = Math.floor((w - 5) / LETTER);
      if (!box.text && room >= 3) {
        box.text = document.createElementNS('http://www.w3.org/2000/svg', 'text');
        box.text.setAttribute('y', box.y + 12);
        box.g.append(box.text);
      }
      if (!box.text) return;
      box.text.setAttribute('x', x + 3);
      box.text.textContent = room < 3 ? '' : box.short.length <= room ? box.short : box.short.slice(0, room - 1) + '…';
    };

    // The box clicked takes the whole width; what it stands on stays, what lies beside it goes.
    const zoom = (to) => {
      for (const box of boxes) {
        const below = box.x <= to.x + 0.05 && box.x + box.w >= to.x + to.w - 0.05 && box.y >= to.y;
        const inside = box.x >= to.x - 0.05 && box.x + box.w <= to.x + to.w + 0.05 && box.y <= to.y;
        box.g.classList.toggle('gone', !below && !inside);
        const x = below ? 0 : (box.x - to.x) / to.w * WIDTH;
        const w = below ? WIDTH : box.w / to.w * WIDTH;
        box.rect.setAttribute('x', x);
        box.rect.setAttribute('width', w);
        label(box, x, w);
      }
    };
    for (const box of boxes) box.g.addEventListener('click', () => zoom(box));

    // Boxes whose name holds the words light up; nested ones count once.
    const search = (words) => {
      let sum = 0;
      const lit = [];
      for (const box of boxes) {
        const hit = words !== '' && box.name.toLowerCase().includes(words.toLowerCase());
        box.g.classList.toggle('lit', hit);
        if (hit) lit.push(box);
      }
      for (const box of lit) {
        const under = lit.some((o) => o !== box && o.y > box.y && o.x <= box.x + 0.05 && o.x + o.w >= box.x + box.w - 0.05);
        if (!under) sum += box.w;
      }
      return words === '' ? '' : `${(100 * sum / WIDTH).toFixed(1)} % in ${lit.length} boxes`;
    };
    const holder = svg.closest('.flames');
    const input = holder && holder.querySelector('.find');
    if (input) {
      input.addEventListener('input', () => { holder.querySelector('.found').textContent = search(input.value); });
    } else {
      document.addEventListener('keydown', (e) => {
        if (e.key !== '/') return;
        e.preventDefault();
        const words = prompt('Find functions whose names hold:') || '';
        document.title = search(words) || document.title;
      });
    }
  }
})();
